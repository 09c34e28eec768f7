"""`python -m regard`; for several processes, `torchrun --nproc-per-node 2 -m regard train ...`."""

from regard.cli.main import main

if __name__ == "__main__":
    main()
