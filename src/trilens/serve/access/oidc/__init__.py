"""People who log in with a provider of OpenID Connect: the authorization code flow, with PKCE."""
