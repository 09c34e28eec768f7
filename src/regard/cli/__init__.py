"""Thin skins over the other rooms: the command line."""
