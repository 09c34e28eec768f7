"""Pictures: figures of one style, as PNG and SVG."""
