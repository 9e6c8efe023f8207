"""Pods to workloads. Pure logic: objects go in, memberships, phases and info metrics come out."""
