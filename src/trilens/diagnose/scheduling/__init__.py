"""What schedulers, queues and autoscalers say of a pod without a node, and what nodes have for it."""
