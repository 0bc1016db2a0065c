// Tests the client and the verifier in workerd, the runtime of Cloudflare Workers, against a live ebb. TestTypeScript in
// web/client starts ebb, and passes its address and keys in the variable JOB.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import workerd from 'workerd'
import { Runner, Sandbox, loadKey, newKey } from '@ebb-broker/client'

const job = JSON.parse(process.env.JOB)
const directory = mkdtempSync(join(tmpdir(), 'ebb-edge-'))
await build({
  entryPoints: [new URL('edge/worker.mjs', import.meta.url).pathname], outfile: join(directory, 'worker.js'),
  bundle: true, format: 'esm', platform: 'neutral', mainFields: ['module', 'main'], conditions: ['workerd', 'worker'], logLevel: 'error',
})
writeFileSync(join(directory, 'job.json'), process.env.JOB)
writeFileSync(join(directory, 'config.capnp'), `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main), (name = "local", network = (allow = ["private", "local"]))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "2025-01-01",
  bindings = [(name = "JOB", text = embed "job.json")],
  globalOutbound = "local",
);
`)
const runtime = spawn(workerd.default, ['serve', '--control-fd=3', join(directory, 'config.capnp')], { stdio: ['ignore', 'inherit', 'inherit', 'pipe'] })
try {
  const [line] = await Promise.race([once(runtime.stdio[3], 'data'), once(runtime, 'exit').then(() => assert.fail('workerd has ended'))])
  const edge = `http://127.0.0.1:${JSON.parse(String(line).split('\n')[0]).port}`

  const runner = new Runner({ issuer: job.issuer, clientId: 'ci', key: await loadKey(job.keys.ci) })
  const open = () => runner.openTask({ name: 'edge', kind: job.kind, owner: job.owner, ttl_seconds: 600, ceiling: job.ceiling, sandbox_expected: { attestor: 'enroll' }, ticket: true })
  const mine = await open()
  assert.equal((await (await fetch(edge, { headers: { ticket: mine.ticket } })).text()).trim(), '200 order 42')

  const { taskId, ticket } = await open()
  const proxy = (url, init) => fetch(String(url).replace('https://orders.test', edge), init)
  const box = new Sandbox({ issuer: job.issuer, key: await newKey(), fetch: (url, init) => (String(url).startsWith('https://orders.test') ? proxy : fetch)(url, init) })
  await box.enrol(ticket)
  const visit = box.fetch(await box.token({ scope: 'orders:eu/42:read' }))
  assert.equal((await proxy('https://orders.test/eu/42')).status, 401)
  const first = await visit('https://orders.test/eu/42')
  assert.equal(`${first.status} ${await first.text()}`, `200 for ${job.owner}`)
  assert.equal((await visit('https://orders.test/eu/42', { method: 'POST' })).status, 403)
  await runner.completeTask(taskId)
  assert.equal((await visit('https://orders.test/eu/42')).status, 401)
  console.log('done')
} finally {
  runtime.kill()
  rmSync(directory, { recursive: true })
}
