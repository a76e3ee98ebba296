"""From pods that wait to claims for machines: who counts, what is decided, and how it is written down."""
