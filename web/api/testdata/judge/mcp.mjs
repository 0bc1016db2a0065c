// Finds out how to call an MCP server that is a resource of ebb, and calls it, with both generations of the official TypeScript
// SDK. Reads its instructions from JUDGE (JSON) and exits 0 only if the SDKs accepted every answer.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

// The script stays in the repository; the libraries are wherever they were installed.
const require = createRequire(pathToFileURL(process.env.JUDGE_MODULES + '/'))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const jose = await load('jose')
const first = await load('@modelcontextprotocol/sdk/client/auth.js')
const second = await load('@modelcontextprotocol/client')

const job = JSON.parse(process.env.JUDGE)
const step = (name) => console.log('ok ' + name)
const refused = () => fetch(job.server, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })

// The first generation reads no challenge but Bearer's: it goes by the well-known places.
for (const [name, sdk] of Object.entries({ first, second })) {
  const found = await sdk.discoverOAuthServerInfo(job.server)
  assert.equal(found.authorizationServerUrl, job.issuer)
  assert.equal(found.authorizationServerMetadata.issuer, job.issuer)
  assert.deepEqual(found.resourceMetadata.scopes_supported, [job.scope])
  step('discovery by the ' + name + ' generation')
}

const { resourceMetadataUrl, scope } = second.extractWWWAuthenticateParams(await refused())
assert.equal(scope, job.scope)
const about = await second.discoverOAuthProtectedResourceMetadata(job.server, { resourceMetadataUrl })
assert.equal(about.resource, job.server)
step('the challenge names scope and resource_metadata')

// The second generation proves its key by itself (SEP-1932). Nothing here helps it.
const privateKey = await jose.importPKCS8(job.key, 'ES256', { extractable: true })
const { d, ...publicJwk } = await jose.exportJWK(privateKey)
const session = await second.DpopSession.create({ keyPair: { privateKey, publicJwk, alg: 'ES256' } })
const provider = new second.PrivateKeyJwtProvider({ clientId: job.sandbox, privateKey: job.key, algorithm: 'ES256', scope, expectedIssuer: job.issuer })
provider.dpop = () => session
const client = new second.Client({ name: 'judge', version: '1' })
await client.connect(new second.StreamableHTTPClientTransport(new URL(job.server), { authProvider: provider }))
const answer = await client.callTool({ name: 'list_credentials', arguments: {} })
assert.ok(!answer.isError, JSON.stringify(answer))
await client.close()
step('client_credentials with DPoP, and a call')
console.log('done')
