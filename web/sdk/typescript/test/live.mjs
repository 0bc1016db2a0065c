// The client and the verifier against a live ebb, started by TestTypeScript in web/client. JOB names it.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { EbbError, Runner, Sandbox, loadKey, newKey } from '@ebb-broker/client'
import { middleware } from '@ebb-broker/client/node'
import { Verifier } from '@ebb-broker/client/verify'

const job = JSON.parse(process.env.JOB)
const { issuer, orders } = job
const runner = new Runner({ issuer, clientId: 'ci', key: await loadKey(job.keys.ci) })

async function opened() {
  return runner.openTask({ name: 'typescript', kind: job.kind, owner: job.owner, ttl_seconds: 600, ceiling: job.ceiling, sandbox_expected: { attestor: 'enroll' }, ticket: true,
    delegation: { sandbox_expected: { attestor: 'enroll' }, depth: 1 } })
}

const code = (promise) => promise.then(() => 'no error', (error) => (error instanceof EbbError ? error.code : Promise.reject(error)))

// The lines of the README, as they are.
{
  const { ticket } = await opened()
  const lines = /```js\n([\s\S]*?)```/.exec(readFileSync(new URL('../README.md', import.meta.url), 'utf8'))[1]
  assert.ok(lines.trim().split('\n').length <= 10)
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', lines], {
    cwd: new URL('..', import.meta.url), env: { ...process.env, EBB_URL: issuer, EBB_TICKET: ticket, ORDERS_URL: orders }, encoding: 'utf8',
  })
  assert.equal(run.stdout.trim(), '200 order 42', run.stderr)
}

const { taskId, ticket } = await opened()
const key = await newKey({ algorithm: 'EdDSA' })
const box = new Sandbox({ issuer, key })
const who = await box.enrol(ticket)
assert.equal(who.taskId, taskId)
assert.equal(await code(new Sandbox({ issuer, key: await newKey() }).enrol(ticket)), 'invalid_evidence')

// A server with the verifier of this package. Its public URL is in the proofs, as behind a proxy.
const publicUrl = 'https://orders.test'
const stop = new AbortController()
let heard = () => {}
const verifier = new Verifier({
  issuer, resource: job.resource, publicUrl, clientId: job.server, key: await loadKey(job.keys[job.server]),
  scope: (r) => `orders:eu/42:${r.method === 'GET' ? 'read' : 'write'}`,
  fetch: async (url, init) => {
    const response = await fetch(url, init)
    if (String(url).includes('/v1/revocations')) heard(await response.clone().text())
    return response
  },
})
const server = createServer((request, response) => middleware(verifier)(request, response, () => response.end(`for ${request.ebb.subject}`)))
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const proxy = (url, init) => fetch(String(url).replace(publicUrl, `http://127.0.0.1:${server.address().port}`), init)
const visit = (credential, init, by = key) => new Sandbox({ issuer, key: by, fetch: proxy }).fetch(credential)(publicUrl + '/eu/42', init)

const read = await box.token({ scope: 'orders:eu/42:read' })
assert.equal((await visit(read)).status, 503) // the feed was never read
await verifier.poll()
const first = await visit(read)
assert.equal(`${first.status} ${await first.text()}`, `200 for ${job.owner}`) // after the nonce of a server that has just started
assert.equal((await visit(read, { method: 'POST' })).status, 403)
assert.equal((await visit(read, {}, await newKey())).status, 401) // the key of another

// A write needs an approval, which TestTypeScript gives.
assert.equal(await code(box.token({ scope: 'orders:eu/42:write' })), 'approval_required')
assert.equal(await code(box.token({ scope: 'orders:eu/42:read', content: 'cnt_' + '0'.repeat(32) })), 'invalid_request') // its provider reads no bodies
let told
const write = await box.token({ scope: 'orders:eu/42:write orders:eu/43:write', reason: 'must fix it', wait: true, pending: (p) => (told = p) })
assert.match(told.requestId, /^req_/)
assert.equal(write.scope, 'orders:eu/42:write')
assert.equal((await visit(write, { method: 'POST' })).status, 200)
assert.equal((await box.fetch(write)(orders + 'eu/42', { method: 'POST', body: 'x' })).status, 200) // the server in Go

// A wait that is given up, and withdrawn.
const given = new AbortController()
let waits
await assert.rejects(box.token({ scope: 'orders:eu/44:write', wait: true, signal: given.signal, pending: (p) => { waits = p; given.abort(new Error('enough')) } }), /enough/)
await box.revoke(waits)

// Delegation.
const part = await box.delegate({ scope: 'orders:eu/42:read' })
const otherKey = await newKey()
const other = new Sandbox({ issuer, key: otherKey })
assert.equal((await other.enrol(part.ticket)).taskId, part.taskId)
const narrow = await other.token({ scope: 'orders:eu/42:read' })
assert.equal(await code(other.token({ scope: 'orders:eu/43:read' })), 'invalid_scope')

// Revocation: of one token, then of the task, which ends the delegated one.
await box.revoke(read)
await verifier.poll()
assert.equal((await visit(read)).status, 401)
assert.equal((await visit(write, { method: 'POST' })).status, 200)
let revocations = ''
const ended = new Promise((resolve) => {
  heard = (text) => {
    revocations += text
    if (revocations.includes(taskId) && revocations.includes(part.taskId)) resolve()
  }
})
const followed = verifier.start(stop.signal)
assert.equal((await runner.completeTask(taskId)).pendingRevocations, 0)
await ended
await verifier.poll()
assert.equal((await visit(write, { method: 'POST' })).status, 401)
assert.equal((await visit(narrow, {}, otherKey)).status, 401)
assert.equal(await code(box.token({ scope: 'orders:eu/42:read' })), 'invalid_request')
stop.abort()
await followed
server.close()
server.closeAllConnections()
console.log('done')
