"""Objectives for services: a short file in, recording and alerting rules with burn rates out."""
