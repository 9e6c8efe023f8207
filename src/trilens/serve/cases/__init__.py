"""Case files of the live cluster: whom a question is about, all that is known of it, and the verdict."""
