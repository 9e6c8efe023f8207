"""Who is to blame for a hang, by what PyTorch's flight recorders of many ranks say together."""
