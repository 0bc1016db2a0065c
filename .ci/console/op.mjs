// A real OpenID provider on loopback with forms to log in and to consent, and groups, acr and auth_time in ID tokens.
// usage: node op.mjs REDIRECT_URI. It prints one line of JSON when it is ready, and ends with its standard input.
// "many" is in more groups than fit; the password "key" proves it by phr, any other by pwd.
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const client = {
  client_id: 'ebb', client_secret: 'ebb-client-secret-of-this-test', redirect_uris: [process.argv[2]],
  grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'client_secret_basic', id_token_signed_response_alg: 'ES256',
};
const groups = { ann: ['approvers', 'web'], eve: ['audit'] };
const { privateKey } = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign']);
const { kty, crv, x, y, d } = await crypto.subtle.exportKey('jwk', privateKey);
const provider = new Provider(issuer, {
  clients: [client],
  jwks: { keys: [{ kty, crv, x, y, d, use: 'sig', alg: 'ES256', kid: 'k1' }] },
  claims: { openid: ['sub'], profile: ['name', 'groups', 'hasgroups'], email: ['email', 'email_verified'], acr: null, auth_time: null },
  acrValues: ['pwd', 'phr'],
  conformIdTokenClaims: process.argv[3] === 'thin',
  pkce: { required: () => true },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  ttl: { AccessToken: 600, Grant: 3600, Session: 3600, Interaction: 600, IdToken: 600, AuthorizationCode: 60 },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `The ${id}`, email: `${id}@example.com`, email_verified: true, ...(id === 'many' ? { hasgroups: true } : { groups: groups[id] ?? [] }) }),
  }),
  cookies: { keys: ['a key for this test'] },
});
const callback = provider.callback();
const fields = '<label>Name <input name="login"></label><label>Password <input name="password"></label>';

async function interact(req, res) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(req, res);
  if (req.method === 'GET') {
    res.setHeader('Content-Type', 'text/html');
    res.end(`<form method="post" action="${req.url}"><input type="hidden" name="prompt" value="${prompt.name}">${prompt.name === 'login' ? fields : ''}<button>Go on</button></form>`);
    return;
  }
  const chunks = [];
  for await (const c of req) chunks.push(c);
  const form = new URLSearchParams(Buffer.concat(chunks).toString());
  if (form.get('abort')) return provider.interactionFinished(req, res, { error: 'access_denied', error_description: 'no' }, { mergeWithLastSubmission: false });
  if (prompt.name === 'login') {
    const login = { accountId: form.get('login'), acr: form.get('password') === 'key' ? 'phr' : 'pwd' };
    return provider.interactionFinished(req, res, { login }, { mergeWithLastSubmission: false });
  }
  const grant = grantId ? await provider.Grant.find(grantId) : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope((prompt.details.missingOIDCScope ?? []).join(' '));
  grant.addOIDCClaims(prompt.details.missingOIDCClaims ?? []);
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

server.on('request', (req, res) => {
  if (!req.url.startsWith('/interaction/')) return callback(req, res);
  return interact(req, res).catch((e) => { res.statusCode = 500; res.end(String(e)); });
});
console.log(JSON.stringify({ issuer, id: client.client_id, secret: client.client_secret }));
process.stdin.resume();
process.stdin.on('end', () => { server.closeAllConnections(); server.close(); });
