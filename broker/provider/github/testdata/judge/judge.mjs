// Holds the conversations of a GitHub App with GitHub's own libraries. Reads its
// instructions from JUDGE (JSON) and ends with "done" only if every library accepted
// every answer.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

// The script stays in the repository; the libraries are wherever they were installed.
const require = createRequire(pathToFileURL(process.env.JUDGE_MODULES + '/'))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const { createAppAuth } = await load('@octokit/auth-app')
const { request } = await load('@octokit/request')

const job = JSON.parse(process.env.JUDGE)
const step = (name) => console.log('ok ' + name)
const api = request.defaults({ baseUrl: job.url })
const refused = async (status, call) => {
  const error = await call.then(() => null, (e) => e)
  assert.equal(error?.status, status)
}

const auth = createAppAuth({ appId: job.clientId, privateKey: job.key, request: api })
const asApp = api.defaults({ request: { hook: auth.hook } })
const { data: app } = await asApp('GET /app')
assert.equal(app.client_id, job.clientId)
step('JWT')

for (const format of ['disabled', 'enabled']) {
  const asked = api.defaults({ headers: { 'x-github-stateless-s2s-token': format } })
  const made = await createAppAuth({ appId: job.clientId, privateKey: job.key, request: asked })({
    type: 'installation', installationId: job.installation, repositoryIds: [1], permissions: { contents: 'read' },
  })
  assert.deepEqual(made.permissions, { contents: 'read', metadata: 'read' })
  assert.deepEqual(made.repositoryIds, [1])
  assert.equal(made.token.includes('.'), format === 'enabled')
  const asToken = api.defaults({ headers: { authorization: 'token ' + made.token } })
  const { data } = await asToken('GET /installation/repositories')
  assert.deepEqual(data.repositories.map((r) => r.full_name), ['acme/web'])
  await refused(404, asToken('GET /repos/acme/api'))
  await refused(403, asToken('POST /repos/acme/web/issues', { title: 'x' }))
  await asToken('DELETE /installation/token')
  await refused(401, asToken('GET /installation/repositories'))
  step('installation token, ' + format)
}
await refused(422, auth({ type: 'installation', installationId: job.installation, repositoryIds: [1], permissions: { pages: 'read' } }))
step('a permission that is not granted')

// What the driver minted is a token like any other, and dies like one.
const theirs = api.defaults({ headers: { authorization: 'token ' + job.token } })
const { data: repo } = await theirs('GET /repos/{owner}/{repo}', { owner: 'acme', repo: 'web' })
assert.equal(repo.id, 1)
assert.equal((await theirs('DELETE /installation/token')).status, 204)
await refused(401, theirs('GET /installation/repositories'))
step("the driver's token")
console.log('done')
