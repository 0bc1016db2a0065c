// Holds the conversations of a sandbox, an approver and a resource server with
// libraries that were written by others. Reads its instructions from JUDGE (JSON)
// and exits 0 only if every library accepted every answer.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { webcrypto as crypto } from 'node:crypto'

// The script stays in the repository; the libraries are wherever they were installed.
const require = createRequire(pathToFileURL(process.env.JUDGE_MODULES + '/'))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const jose = await load('jose')
const oauth = await load('oauth4webapi')
const oidc = await load('openid-client')

const job = JSON.parse(process.env.JUDGE)
const issuer = new URL(job.issuer)
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const DEFERRED = 'urn:ietf:params:oauth:grant-type:deferred'
const TASK = 'urn:ebb:params:oauth:token-type:task'
const step = (name) => console.log('ok ' + name)

const keyPair = async (pem) => {
  const privateKey = await jose.importPKCS8(pem, 'ES256', { extractable: true })
  const { d, ...jwk } = await jose.exportJWK(privateKey)
  return { privateKey, publicKey: await jose.importJWK(jwk, 'ES256', { extractable: true }) }
}
const keys = Object.fromEntries(await Promise.all(Object.entries(job.keys).map(async ([id, pem]) => [id, await keyPair(pem)])))

const client = async (id, auth) => {
  const config = await oidc.discovery(issuer, id, { dpop_bound_access_tokens: true }, auth, { algorithm: 'oauth2' })
  return { config, DPoP: oidc.getDPoPHandle(config, keys[id]) }
}

// The sandbox: an exchange authenticates by the task token and the key alone.
const sandbox = await client(job.sandbox, oidc.None())
step('discovery RFC 8414')
await oidc.discovery(issuer, job.sandbox, {}, oidc.None())
step('discovery openid-configuration')

const ask = (scope, more = {}) =>
  oidc.genericGrantRequest(sandbox.config, EXCHANGE, { subject_token: job.taskToken, subject_token_type: TASK, scope, ...more }, { DPoP: sandbox.DPoP })

const read = await ask(job.read, { resource: job.resource })
assert.equal(read.token_type, 'dpop')
assert.equal(read.scope, job.read)
assert.equal(read.refresh_token, undefined)
step('token exchange RFC 8693 with DPoP')

const as = sandbox.config.serverMetadata()
const jwks = jose.createRemoteJWKSet(new URL(as.jwks_uri))
const verified = await jose.jwtVerify(read.access_token, jwks, { issuer: job.issuer, audience: job.resource, typ: 'at+jwt' })
assert.equal(verified.payload.client_id, job.sandbox)
assert.equal(verified.payload.cnf.jkt, await jose.calculateJwkThumbprint(await jose.exportJWK(keys[job.sandbox].publicKey)))
step('jose verifies the access token')

const proof = async (id, method, url, token, nonce) => {
  const claims = { jti: crypto.randomUUID(), htm: method, htu: url }
  if (nonce) claims.nonce = nonce
  if (token) claims.ath = jose.base64url.encode(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(token))))
  return new jose.SignJWT(claims)
    .setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk: await jose.exportJWK(keys[id].publicKey) })
    .setIssuedAt()
    .sign(keys[id].privateKey)
}
const atResource = new Request(job.resource, {
  headers: { authorization: 'DPoP ' + read.access_token, dpop: await proof(job.sandbox, 'GET', job.resource, read.access_token) },
})
await oauth.validateJwtAccessToken(as, atResource, job.resource, { requireDPoP: true, [oauth.allowInsecureRequests]: true })
step('oauth4webapi accepts it at a resource server (RFC 9068, RFC 9449)')

const details = [{ type: 'ebb_credential', provider: 'orders', identifier: 'eu/7', actions: ['read'] }]
const rich = await ask('', { authorization_details: JSON.stringify(details) })
assert.deepEqual(rich.authorization_details, details)
step('authorization_details RFC 9396')

// The same sandbox by private_key_jwt.
const byKey = await client(job.sandbox, oidc.PrivateKeyJwt(keys[job.sandbox].privateKey))
const granted = await oidc.clientCredentialsGrant(byKey.config, { scope: job.read }, { DPoP: byKey.DPoP })
assert.equal(granted.scope, job.read)
step('client_credentials with private_key_jwt RFC 7523')

await assert.rejects(ask('nonsense'), (e) => e instanceof oidc.ResponseBodyError && e.error === 'invalid_scope' && e.status === 400)
await assert.rejects(ask(job.read, { resource: 'https://unknown.test/' }), (e) => e.error === 'invalid_target')
await assert.rejects(ask(job.write), (e) => e.error === 'interaction_required')
step('errors are surfaced')

// The resource server introspects, the operator revokes. They prove no key beside their assertion, so after a
// start of ebb they wait for the seconds of Retry-After.
const patient = async (call) => {
  for (;;) {
    try {
      return await call()
    } catch (e) {
      if (e.cause?.status !== 503) throw e
      await new Promise((done) => setTimeout(done, 1000 * Number(e.cause.headers.get('retry-after'))))
    }
  }
}
const server = await client(job.server, oidc.PrivateKeyJwt(keys[job.server].privateKey))
const state = await patient(() => oidc.tokenIntrospection(server.config, read.access_token))
assert.equal(state.active, true)
assert.equal(state.scope, job.read)
assert.deepEqual(await patient(() => oidc.tokenIntrospection(server.config, 'garbage')), { active: false })
step('introspection RFC 7662')
const operator = await client(job.operator, oidc.PrivateKeyJwt(keys[job.operator].privateKey))
await patient(() => oidc.tokenRevocation(operator.config, read.access_token))
assert.deepEqual(await patient(() => oidc.tokenIntrospection(server.config, read.access_token)), { active: false })
step('revocation RFC 7009')

// The approver, through /v1 as a DPoP-protected resource.
const approver = await client(job.approver, oidc.PrivateKeyJwt(keys[job.approver].privateKey))
const api = await oidc.clientCredentialsGrant(approver.config, {}, { DPoP: approver.DPoP })
const v1 = async (method, path, body) => {
  const url = new URL(job.issuer + '/v1' + path)
  const headers = new Headers(body ? { 'content-type': 'application/json' } : {})
  const res = await oidc.fetchProtectedResource(approver.config, api.access_token, url, method, body && JSON.stringify(body), headers, { DPoP: approver.DPoP })
  assert.equal(res.status, 200, await res.clone().text())
  return res.json()
}
const approve = async () => {
  const { items } = await v1('GET', '/requests?state=pending')
  assert.equal(items.length, 1)
  await v1('POST', `/requests/${items[0].id}/approve`, { digest: items[0].digest })
}
step('DPoP at /v1')

// Deferred token response.
let code
await assert.rejects(ask(job.write, { completion_mode: 'deferred', reason: 'please' }), (e) => {
  code = e.cause.deferral_code
  return e.error === 'authorization_pending' && typeof code === 'string' && e.cause.interval > 0 && e.cause.expires_in > 0
})
const poll = () => oidc.genericGrantRequest(sandbox.config, DEFERRED, { deferral_code: code }, { DPoP: sandbox.DPoP })
await assert.rejects(poll(), (e) => e.error === 'authorization_pending')
await approve()
await new Promise((done) => setTimeout(done, job.interval))
assert.equal((await poll()).scope, job.write)
await new Promise((done) => setTimeout(done, job.interval))
await assert.rejects(poll(), (e) => e.error === 'invalid_grant')
step('deferred token response')

// CIBA poll mode, as the library sends it: private_key_jwt at the backchannel endpoint and no proof beside it.
const ciba = await client(job.sandbox, oidc.PrivateKeyJwt(keys[job.sandbox].privateKey))
const begun = await oidc.initiateBackchannelAuthentication(ciba.config, { scope: 'openid ' + job.ciba, login_hint: job.approver, binding_message: 'AMBER-42' })
setTimeout(approve, job.interval)
const polled = await oidc.pollBackchannelAuthenticationGrant(ciba.config, begun, undefined, { DPoP: ciba.DPoP })
assert.equal(polled.scope, job.ciba)
assert.equal(polled.token_type, 'dpop')
const viaCIBA = await jose.jwtVerify(polled.access_token, jwks, { issuer: job.issuer, audience: job.resource, typ: 'at+jwt' })
assert.equal(viaCIBA.payload.cnf.jkt, verified.payload.cnf.jkt)
step('CIBA poll')

// RFC 9728 for the API itself, and its challenge.
const resource = new URL(job.issuer + '/v1')
const prm = await oauth.processResourceDiscoveryResponse(resource, await oauth.resourceDiscoveryRequest(resource))
assert.deepEqual(prm.authorization_servers, [job.issuer])
const bare = await fetch(job.issuer + '/v1/tasks')
assert.equal(bare.status, 401)
assert.match(bare.headers.get('www-authenticate'), /^DPoP .*resource_metadata=/)
step('protected resource metadata RFC 9728')

// The metadata as MCP clients read it: both generations of the official TypeScript SDK.
for (const name of ['@modelcontextprotocol/sdk/client/auth.js', '@modelcontextprotocol/client']) {
  const mcp = await load(name)
  const metadata = await mcp.discoverAuthorizationServerMetadata(job.issuer)
  assert.equal(metadata.issuer, job.issuer)
  assert.deepEqual(metadata.response_types_supported, [])
  assert.deepEqual(metadata.code_challenge_methods_supported, ['S256'])
  const about = await mcp.discoverOAuthProtectedResourceMetadata(job.issuer + '/v1')
  assert.deepEqual(about.authorization_servers, [job.issuer])
  // There is no code flow: the SDK says so itself, and the endpoint refuses.
  await assert.rejects(mcp.startAuthorization(job.issuer, { metadata, clientInformation: { client_id: 'x' }, redirectUrl: 'http://127.0.0.1/' }), /does not support response type code/)
  const refused = await fetch(metadata.authorization_endpoint + '?response_type=code&client_id=x&redirect_uri=http://127.0.0.1/', { redirect: 'manual' })
  assert.equal(refused.status, 400)
  assert.equal((await refused.json()).error, 'unauthorized_client')
  step('metadata RFC 8414 in ' + name)
}
console.log('done')
