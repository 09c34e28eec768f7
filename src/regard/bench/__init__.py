"""How fast this machine is with regard, and with its peers, by turns in one run."""
