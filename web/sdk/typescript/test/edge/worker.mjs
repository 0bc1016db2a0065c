// A server and an agent in an edge runtime. The runtime has fetch and WebCrypto, but no Node.js API and no background work.
import { Sandbox, loadKey, newKey } from '@ebb-broker/client'
import { Verifier, protect } from '@ebb-broker/client/verify'

let server

async function serve(job, request) {
  server ??= (async () => {
    const verifier = new Verifier({
      issuer: job.issuer, resource: job.resource, publicUrl: 'https://orders.test', clientId: job.server, key: await loadKey(job.keys[job.server]),
      scope: (r) => `orders:eu/42:${r.method === 'GET' ? 'read' : 'write'}`,
    })
    return { verifier, handle: protect(verifier, (_, token) => new Response(`for ${token.subject}`)) }
  })()
  const { verifier, handle } = await server
  await verifier.poll()
  return handle(request)
}

// agent enrols with a ticket, and reads an order at the server in Go.
async function agent(job, ticket) {
  const sandbox = new Sandbox({ issuer: job.issuer, key: await newKey() })
  await sandbox.enrol(ticket)
  const token = await sandbox.token({ scope: 'orders:eu/42:read' })
  const response = await sandbox.fetch(token)(job.orders + 'eu/42')
  return new Response(`${response.status} ${await response.text()}`)
}

export default {
  async fetch(request, env) {
    const job = JSON.parse(env.JOB)
    if (globalThis.process?.versions) return new Response('this is Node.js', { status: 500 })
    const ticket = request.headers.get('ticket')
    return ticket ? agent(job, ticket) : serve(job, request)
  },
}
