"""What a Kubernetes API server knows, followed by list and watch.

    access -> api -> discovery -> informer (one resource) -> cluster (all of one cluster) -> ObjectSink

`catalogue.py` is the table that everything else follows: which kinds are watched, what is kept of their
objects, and so which permissions are needed.
"""
