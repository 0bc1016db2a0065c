import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import test from 'node:test'
import { decodeJwt, decodeProtectedHeader, exportJWK, exportPKCS8, generateKeyPair } from 'jose'
import { EbbError, Runner, Sandbox, keyText, loadKey, newKey } from '@ebb-broker/client'

const issuer = 'https://ebb.test'
const key = await newKey({ extractable: true })
const granted = { access_token: 'secret-token', token_type: 'DPoP', expires_in: 60, scope: 'orders:eu/42:read', lease_id: 'lse_1' }
const json = (body, status = 200, headers = {}) => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } })

/** sandbox answers its calls with the responses in turn, and records them. */
function sandbox(...responses) {
  const calls = []
  const fetch = (url, init) => {
    calls.push({ url: String(url), init, headers: new Headers(init.headers), form: new URLSearchParams(init.body) })
    const next = responses.shift()
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next)
  }
  return { box: new Sandbox({ issuer, key, fetch, taskToken: 'task-token' }), calls }
}

const fails = async (promise, code) => {
  const error = await promise.then(() => assert.fail('no error'), (e) => e)
  assert.ok(error instanceof EbbError, String(error))
  assert.equal(error.code, code)
  return error
}

test('a token is requested with a proof, and not shown', async () => {
  const { box, calls } = sandbox(json(granted))
  const c = await box.token({ scope: 'orders:eu/42:read', ttlSeconds: 60, reason: 'why' })
  assert.equal(c.token, 'secret-token')
  assert.doesNotMatch(inspect(c) + JSON.stringify(c), /secret-token/)
  assert.equal(calls[0].url, issuer + '/oauth2/token')
  assert.equal(calls[0].form.get('requested_expiry'), '60')
  assert.equal(calls[0].init.redirect, 'manual')
  const proof = calls[0].headers.get('dpop')
  assert.deepEqual(decodeProtectedHeader(proof), { alg: 'ES256', typ: 'dpop+jwt', jwk: key.publicJwk })
  const { htm, htu, ath } = decodeJwt(proof)
  assert.deepEqual({ htm, htu, ath }, { htm: 'POST', htu: issuer + '/oauth2/token', ath: undefined })
})

test('a nonce is used once when ebb requires it, and again in the next call', async () => {
  const needs = json({ error: 'use_dpop_nonce' }, 400, { 'dpop-nonce': 'n1' })
  const { box, calls } = sandbox(needs, json(granted), json(granted))
  await box.token({ scope: 'a:b:c' })
  await box.token({ scope: 'a:b:c' })
  assert.deepEqual(calls.map((c) => decodeJwt(c.headers.get('dpop')).nonce), [undefined, 'n1', 'n1'])
  const again = sandbox(...[1, 2, 3].map((n) => json({ error: 'use_dpop_nonce' }, 400, { 'dpop-nonce': 'n' + n })))
  await fails(again.box.token({ scope: 'a:b:c' }), 'use_dpop_nonce')
  assert.equal(again.calls.length, 2)
})

test('answers that are not of ebb, and tokens that cannot be used', async () => {
  for (const [code, response] of [
    ['not_ebb', new Response('<html>', { headers: { 'content-type': 'text/html' } })],
    ['not_ebb', new Response('{}', { headers: { 'content-type': 'text/plain' } })],
    ['not_ebb', json([granted])],
    ['not_ebb', new Response('{"access_token":', { headers: { 'content-type': 'application/json' } })],
    ['not_ebb', json({ ...granted, access_token: 'a\r\nb' })],
    ['not_ebb', new Response(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d), { headers: { 'content-type': 'application/json' } })],
    ['not_ebb', json({ ...granted, access_token: 1 })],
    ['not_ebb', json({ ...granted, token_type: 'bearer' })],
    ['not_ebb', json({ ...granted, expires_in: '60' })],
    ['not_ebb', new Response(null, { status: 302, headers: { location: 'https://evil.test' } })],
    ['not_ebb', new Response('gone', { status: 404 })],
    ['temporarily_unavailable', new Response('<html>', { status: 503 })],
    ['unreachable', new TypeError('fetch failed')],
  ]) {
    const error = await fails(sandbox(response).box.token({ scope: 'a:b:c' }), code)
    assert.ok(error.next.length === 1 && error.message.endsWith(error.next[0]), code)
  }
})

test('clients do not show the tokens that they hold', async () => {
  const { box } = sandbox()
  const fetch = async () => json({ ...granted, task: { id: 'tsk_1' } })
  const runner = new Runner({ issuer, key, clientId: 'ci', fetch })
  await runner.openTask({ name: 'n', kind: 'k', ttl_seconds: 60, ceiling: 'a:b:c', sandbox_expected: { attestor: 'enroll' } })
  for (const client of [box, runner]) assert.doesNotMatch(inspect(client, { depth: 9 }) + JSON.stringify(client), /task-token|secret-token/)
  assert.throws(() => new Sandbox({ issuer: 'https://user:hunter2@ebb.test', key }), (e) => e instanceof TypeError && !e.message.includes('hunter2'))
})

test('text of the server cannot hide in a terminal', async () => {
  await fails(sandbox(json({ error: '\u001b[2J', type: 'x/\u001b[2J' }, 400)).box.token({ scope: 'a:b:c' }), 'not_ebb')
  const error = await fails(sandbox(json({ error: 'access_denied', error_description: '\u001b[2Jno\u202e\n\ud800' }, 400)).box.token({ scope: 'a:b:c' }), 'access_denied')
  assert.equal(error.sentence, '?[2Jno???')
})

test('a problem document, its advice, and advice that is no scope', async () => {
  const advice = { decision: 'denied', would_allow: 'orders:eu/42:read', note: 'no\u001b', toString: 'x' }
  const error = await fails(sandbox(json({ error: 'access_denied', advice }, 400)).box.token({ scope: 'a:b:c' }), 'access_denied')
  assert.deepEqual(error.next, ['Ask for orders:eu/42:read.'])
  assert.deepEqual(error.advice, { decision: 'denied', would_allow: 'orders:eu/42:read', note: 'no?' })
  const bad = await fails(sandbox(json({ error: 'access_denied', advice: { would_allow: '; rm -rf /' } }, 400)).box.token({ scope: 'a:b:c' }), 'access_denied')
  assert.equal(bad.advice, undefined)
  const document = new Response(JSON.stringify({ type: issuer + '/problems/conflict', detail: 'The state has changed.', next: ['ebb task\u001b show', 7, '2', '3', '4', '5', '6'] }), {
    status: 409, headers: { 'content-type': 'application/problem+json', 'retry-after': '7' },
  })
  const problem = await fails(sandbox(document).box.enrol('ticket'), 'conflict')
  assert.deepEqual([problem.status, problem.sentence, problem.next, problem.retryAfterSeconds], [409, 'The state has changed.', ['ebb task? show', '2', '3', '4', '5'], 7])
})

const pending = (more = {}) => json({ error: 'authorization_pending', deferral_code: 'code', request_id: 'req_1', expires_in: 600, interval: 0.001, ...more }, 400)

test('a wait tells what it waits for, survives an outage, and ends with the token', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { box, calls } = sandbox(pending(), pending(), new TypeError('fetch failed'), json({ error: 'slow_down', interval: 2 }, 400), json(granted))
  let told
  const waiting = box.token({ scope: 'orders:eu/42:write', wait: true, pending: (p) => (told = p) })
  const done = waiting.then(() => true)
  while (!(await Promise.race([done, new Promise((r) => setImmediate(() => r(false)))]))) t.mock.timers.tick(1000)
  assert.equal((await waiting).token, 'secret-token')
  assert.deepEqual({ ...told }, { requestId: 'req_1', link: issuer + '/requests/req_1', intervalSeconds: 0.001, expiresInSeconds: 600 })
  assert.equal(told.code, 'code')
  assert.doesNotMatch(inspect(told), /code'/)
  assert.deepEqual(calls.map((c) => c.form.get('deferral_code')), [null, 'code', 'code', 'code', 'code'])
  assert.equal(calls[0].form.get('completion_mode'), 'deferred')
})

test('a wait ends when its signal aborts, with an id of the server that is no id dropped', async () => {
  const stop = new AbortController()
  const { box } = sandbox(pending({ request_id: 'a b', interval: 100 }))
  const waiting = box.token({ scope: 'a:b:c', wait: true, signal: stop.signal, pending: (p) => { assert.equal(p.link, undefined); stop.abort(new Error('enough')) } })
  await assert.rejects(waiting, /enough/)
})

test('without wait a pending request is an error, and a denial ends the wait', async () => {
  const error = await fails(sandbox(pending()).box.token({ scope: 'a:b:c' }), 'authorization_pending')
  assert.equal(error.pending.code, 'code')
  await fails(sandbox(pending(), json({ error: 'access_denied' }, 400)).box.token({ scope: 'a:b:c', wait: true }), 'access_denied')
})

test('a credential is sent only to the origin of its resource, and never after a redirect', async () => {
  const ok = () => new Response('ok')
  const { box, calls } = sandbox(json(granted), ok(), json(granted), ok())
  const visit = box.fetch(await box.token({ scope: 'a:b:c', resource: 'https://orders.test/api' }))
  await visit('https://orders.test/api/eu/42?q=1', { headers: { 'x-mine': '1' } })
  assert.equal(calls[1].headers.get('authorization'), 'DPoP secret-token')
  assert.equal(calls[1].headers.get('x-mine'), '1')
  assert.equal(calls[1].init.redirect, 'manual')
  const { htm, htu, ath } = decodeJwt(calls[1].headers.get('dpop'))
  assert.deepEqual([htm, htu, ath.length], ['GET', 'https://orders.test/api/eu/42', 43])
  for (const url of ['https://evil.test/', 'https://orders.test:8443/', 'http://orders.test/', 'https://orders.test.evil.test/']) await fails(visit(url), 'origin')
  const unbound = await box.token({ scope: 'a:b:c' })
  await box.fetch(unbound)('https://one.test/')
  await fails(box.fetch(unbound)('https://two.test/'), 'origin')
})

test('a resource server that requires a nonce gets it, once', async () => {
  const asks = (nonce) => new Response('', { status: 401, headers: { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': nonce } })
  const { box, calls } = sandbox(json(granted), asks('a'), asks('b'), new Response('ok'))
  const visit = box.fetch(await box.token({ scope: 'a:b:c' }))
  assert.equal((await visit('https://orders.test/', { method: 'POST', body: 'x' })).status, 401)
  assert.equal((await visit('https://orders.test/')).status, 200)
  assert.deepEqual(calls.slice(1).map((c) => decodeJwt(c.headers.get('dpop')).nonce), [undefined, 'a', 'b'])
})

test('the issuer must be a URL that credentials may be sent to', () => {
  for (const bad of ['', 'ebb.test', 'http://ebb.test', 'https://a@ebb.test', 'https://ebb.test/?x', 'https://ebb.test/#', 'ftp://ebb.test', 'http://127.0.0.1.evil.test']) {
    assert.throws(() => new Sandbox({ issuer: bad, key }), TypeError, bad)
  }
  for (const good of ['https://ebb.test/', 'http://127.0.0.1:8080', 'http://[::1]:1', 'http://localhost']) new Sandbox({ issuer: good, key })
})

test('a call before enrolment says what to do', async () => {
  const error = await fails(new Sandbox({ issuer, key }).token({ scope: 'a:b:c' }), 'not_enrolled')
  assert.match(error.message, /enrol\(\)/)
})

test('keys are saved and loaded, and do not show their private part', async () => {
  for (const algorithm of ['ES256', 'EdDSA']) {
    const made = await newKey({ algorithm, extractable: true })
    assert.equal((await loadKey(await keyText(made))).thumbprint, made.thumbprint)
    assert.equal((await loadKey(`client_id: ci\ntask_id: tsk_1\n${await keyText(made)}`)).thumbprint, made.thumbprint)
    const jwk = await exportJWK(made.privateKey)
    assert.equal((await loadKey(JSON.stringify(jwk))).thumbprint, made.thumbprint)
    assert.doesNotMatch(inspect(made) + JSON.stringify(made), new RegExp(jwk.d + '|privateKey'))
    const other = await exportJWK((await newKey({ algorithm, extractable: true })).privateKey)
    for (const bad of [{ ...jwk, x: other.x, ...(jwk.y ? { y: other.y } : {}) }, { ...jwk, d: undefined }, { ...jwk, crv: 'P-384' }]) {
      const error = await loadKey(JSON.stringify(bad)).then(() => assert.fail(JSON.stringify(bad)), (e) => e)
      assert.doesNotMatch(String(error), new RegExp(jwk.d))
    }
  }
  await assert.rejects(async () => keyText(await newKey()))
  const rsa = await generateKeyPair('RS256', { extractable: true })
  for (const bad of ['', 'x', '{}', '{"kty":"oct","k":"AAAA"}', await exportPKCS8(rsa.privateKey)]) await assert.rejects(loadKey(bad), TypeError)
})

test('a runner renews its token when ebb refuses it', async () => {
  const calls = []
  const responses = [json({ ...granted, access_token: 't1' }), json({ type: issuer + '/problems/invalid_token' }, 401), json({ ...granted, access_token: 't2' }),
    json({ task: { id: 'tsk_1' }, ticket: 'secret-ticket' }, 201), json({ pending_revocations: 2 })]
  const runner = new Runner({ issuer, key, clientId: 'ci', fetch: (url, init) => (calls.push({ url, headers: new Headers(init.headers) }), Promise.resolve(responses.shift())) })
  const opened = await runner.openTask({ name: 'n', kind: 'k', ttl_seconds: 60, ceiling: 'a:b:c', sandbox_expected: { attestor: 'enroll' }, ticket: true })
  assert.equal(opened.ticket, 'secret-ticket')
  assert.doesNotMatch(inspect(opened), /secret-ticket/)
  assert.deepEqual(await runner.completeTask('tsk_1/../x'), { pendingRevocations: 2 })
  assert.deepEqual(calls.map((c) => c.headers.get('authorization')), [null, 'DPoP t1', null, 'DPoP t2', 'DPoP t2'])
  assert.equal(calls[4].url, issuer + '/v1/tasks/tsk_1%2F..%2Fx/complete')
})

test('a runner replaces a token that permits only ends when the call needs more', async () => {
  const unavailable = () => json({ type: issuer + '/problems/temporarily_unavailable' }, 503)
  const ends = (access_token) => json({ ...granted, access_token, scope: 'ends runner' })
  const responses = [ends('t1'), unavailable(), json({ ...granted, access_token: 't2' }), json({ task: { id: 'tsk_1' } }, 201)]
  const runner = () => new Runner({ issuer, key, clientId: 'ci', fetch: () => Promise.resolve(responses.shift()) })
  const spec = { name: 'n', kind: 'k', ttl_seconds: 60, ceiling: 'a:b:c', sandbox_expected: { attestor: 'enroll' } }
  assert.equal((await runner().openTask(spec)).taskId, 'tsk_1')
  responses.push(ends('t3'), unavailable(), ends('t4'), unavailable())
  await fails(runner().openTask(spec), 'temporarily_unavailable')
  assert.equal(responses.length, 0)
})

test('a delegated scope must be covered by the requested one', async () => {
  const answer = (scope) => json({ task_id: 'tsk_2', scope, ticket: 'ticket' }, 201)
  assert.equal((await sandbox(answer('orders:eu/42:read')).box.delegate({ scope: 'orders:eu/*:read' })).ticket, 'ticket')
  await fails(sandbox(answer('orders:**:*')).box.delegate({ scope: 'orders:eu/*:read' }), 'not_ebb')
})
