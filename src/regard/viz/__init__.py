"""Who looked where: one payload, as a page, as pictures of one style (PNG, SVG), in the terminal."""
