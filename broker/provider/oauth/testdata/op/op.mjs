// A real authorization server on loopback: opaque access tokens, rotated refresh tokens, introspection, revocation.
// It prints one line of JSON when it is ready, and grants a new refresh token for each line that it reads.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Provider } from 'oidc-provider';

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const client = {
  client_id: 'ebb', client_secret: 'ebb-client-secret-of-this-test', redirect_uris: ['https://ebb.test/cb'],
  grant_types: ['authorization_code', 'refresh_token', 'client_credentials'], response_types: ['code'], token_endpoint_auth_method: 'client_secret_basic',
};
const provider = new Provider(issuer, {
  clients: [client],
  scopes: ['openid', 'offline_access', 'files.read', 'files.write'],
  features: { devInteractions: { enabled: false }, introspection: { enabled: true }, clientCredentials: { enabled: true }, revocation: { enabled: true } },
  rotateRefreshToken: true,
  ttl: { AccessToken: 600, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600, IdToken: 600 },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  cookies: { keys: ['a key for this test'] },
});
server.on('request', provider.callback());

async function refreshToken() {
  const grant = new provider.Grant({ accountId: 'ann', clientId: client.client_id });
  grant.addOIDCScope('openid offline_access files.read files.write');
  const token = new provider.RefreshToken({
    accountId: 'ann', client: await provider.Client.find(client.client_id), grantId: await grant.save(), gty: 'authorization_code',
    scope: 'openid offline_access files.read files.write', rotations: 0, iiat: Math.floor(Date.now() / 1000),
  });
  return token.save();
}

console.log(JSON.stringify({ issuer, id: client.client_id, secret: client.client_secret }));
for await (const _ of createInterface({ input: process.stdin })) console.log(JSON.stringify({ refresh_token: await refreshToken() }));
server.closeAllConnections();
server.close();
