// The shared vectors of web/verify. EBB_VECTORS is their directory; the default is that of the repository.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import test from 'node:test'
import { newKey } from '@ebb-broker/client'
import { VerifyError, Verifier, incoming } from '@ebb-broker/client/verify'

const directory = process.env.EBB_VECTORS ?? new URL('../../../verify/testdata/vectors', import.meta.url).pathname
const key = await newKey()

/** rehearsal is the issuer and the clock of one vector. */
class Rehearsal {
  constructor(file, vector) {
    this.file = file
    this.now = file.config.now
    this.sets = (vector.jwks ?? ['issuer']).map((name) => file.jwks[name])
    const { issuer, resource, scope, max_staleness_seconds: maxStalenessSeconds } = file.config
    const up = vector.up_seconds ?? file.config.up_seconds
    this.verifier = new Verifier({
      issuer, resource, scope, maxStalenessSeconds, key, clientId: 'orders', now: () => this.now * 1000, upSince: (this.now - up) * 1000,
      fetch: (url, init) => this.answer(new URL(url), init),
    })
  }

  async start(vector) {
    await this.feed(vector.unread ? { status: 0 } : { cursor: '', status: 200, body: this.file.config.feed })
  }

  async feed(step) {
    this.step = step
    this.asked = 0
    await this.verifier.poll().catch(() => {})
    assert.equal(this.asked, 1, 'the feed is asked once')
  }

  answer(url) {
    const json = (body) => Response.json(body)
    switch (url.pathname) {
      case '/.well-known/jwks.json': {
        const set = this.sets.length > 1 ? this.sets.shift() : this.sets[0]
        return Promise.resolve(new Response(set, { status: set === '' ? 503 : 200 }))
      }
      case '/oauth2/token':
        return Promise.resolve(json({ access_token: 'feed-token', token_type: 'DPoP', expires_in: 36000 }))
      case '/v1/revocations': {
        const { status, cursor, body, content_type: type = 'application/json' } = this.step
        this.asked++
        if (status === 0) return Promise.reject(new TypeError('connection reset'))
        assert.equal(url.searchParams.get('cursor') ?? '', cursor)
        return Promise.resolve(new Response(status === 204 ? null : body, { status, headers: { 'content-type': type } }))
      }
    }
    throw new Error(`the issuer was asked for ${url}`)
  }
}

const parts = ({ method, url, headers }) => {
  const values = (name) => headers.filter(([n]) => n.toLowerCase() === name).map(([, v]) => v)
  return { method, target: url.replace(/^https:\/\/[^/]*/, ''), authorization: values('authorization'), dpop: values('dpop') }
}

/** fetched is the same request as a runtime with fetch hands it over; undefined for one that it cannot express. */
const fetched = ({ method, url, headers }) => {
  try {
    const request = new Request(url, { method, headers })
    const trimmed = headers.some(([name, value]) => headers.filter(([n]) => n === name).length === 1 && request.headers.get(name) !== value)
    return request.url === url && request.method === method && !trimmed ? incoming(request) : undefined
  } catch {
    return undefined
  }
}

async function verdict(verifier, request) {
  try {
    const t = await verifier.verify(request)
    return { allow: { subject: t.subject, client_id: t.clientId, scope: t.scope, task_id: t.taskId, lease_id: t.leaseId, jkt: t.jkt } }
  } catch (error) {
    if (!(error instanceof VerifyError)) throw error
    return error.code === '' ? { status: error.status } : { status: error.status, error: error.code }
  }
}

let count = 0
for (const name of readdirSync(directory).filter((n) => n.endsWith('.json'))) {
  const file = JSON.parse(readFileSync(`${directory}/${name}`, 'utf8'))
  for (const [way, read] of [['parts', parts], ['fetch', fetched]]) {
    test(`${name} by ${way}`, async (t) => {
      for (const vector of file.vectors) {
        if (vector.steps.some(({ request }) => request && !read(request))) continue
        count++
        await t.test(vector.name, async () => {
          const r = new Rehearsal(file, vector)
          await r.start(vector)
          for (const step of vector.steps) {
            if (step.feed) await r.feed(step.feed)
            else if (step.request) assert.deepEqual(await verdict(r.verifier, read(step.request)), step.want)
            else r.now += step.advance_seconds
          }
        })
      }
    })
  }
}

test('there are 200 vectors or more', () => assert.ok(count >= 200, String(count)))
