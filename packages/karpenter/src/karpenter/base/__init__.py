"""What any program could use: clocks, queues, quantities. Knows nothing of Kubernetes or clouds."""
