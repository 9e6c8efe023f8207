"""Facts in: scraping, remote write and, later, Kubernetes, NVML, the kernel log and the SDK."""
