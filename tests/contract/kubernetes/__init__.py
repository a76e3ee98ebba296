"""One suite, two servers: what a client of Kubernetes can see, asked of the real server and of ours."""
