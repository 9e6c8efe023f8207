"""What the pages of the web app are made of: one cheap answer for each."""
