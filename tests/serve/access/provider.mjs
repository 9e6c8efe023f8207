// A provider of OpenID Connect on loopback. Anybody logs in by a name alone, and is in the groups that follow it: ada+ops+nlp.
// Usage: node provider.mjs MODULE PORT CLIENT_SECRET CLAIMS_IN REDIRECT_URI...     CLAIMS_IN: id_token or userinfo
import { generateKeyPairSync } from "node:crypto";

const [, , module, port, secret, claimsIn, ...redirects] = process.argv;
const { Provider } = await import(module);
const issuer = `http://127.0.0.1:${port}`;
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const key = { ...privateKey.export({ format: "jwk" }), kid: `key-${process.pid}`, use: "sig", alg: "RS256" };

const provider = new Provider(issuer, {
  clients: [{ client_id: "trilens", client_secret: secret, redirect_uris: redirects }],
  jwks: { keys: [key] },
  cookies: { keys: ["of this test alone"] },
  scopes: ["openid", "email", "groups"],
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  conformIdTokenClaims: claimsIn === "userinfo",
  pkce: { required: () => true },
  features: { devInteractions: { enabled: true } },
  findAccount: (_ctx, id) => ({
    accountId: id,
    claims: () => {
      const [name, ...groups] = id.split("+");
      return { sub: id, email: `${name}@example.test`, email_verified: name !== "mallory", groups };
    },
  }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log(`provider at ${issuer}`));
