"""One way for every command to look at a cluster: what is read, what is on sale, and with which settings."""
