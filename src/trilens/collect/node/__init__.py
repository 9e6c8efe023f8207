"""What one node tells about itself: kernel log, GPUs, processes, pods. Runs without the engine."""
