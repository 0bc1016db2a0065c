import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import test from 'node:test'
import { newKey } from '@ebb-broker/client'
import { Verifier, VerifyError, metadata, metadataPath, protect, refusal } from '@ebb-broker/client/verify'
import { middleware } from '@ebb-broker/client/node'
import { parseObject } from '../dist/verify/json.js'
import { ReplayMemory } from '../dist/verify/replay.js'
import { RevokedSet } from '../dist/verify/revoked.js'
import { covers } from '../dist/verify/scope.js'

const key = await newKey()
const config = { issuer: 'https://ebb.test', resource: 'https://orders.test/api', clientId: 'orders', key, scope: 'orders:eu/42:read' }

test('a full replay memory refuses, and forgets no proof that is still valid', () => {
  const m = new ReplayMemory(0, 8)
  const proof = (n, thumbprint = 'k') => ({ thumbprint, replayKey: String(n), issuedAt: 10_000, nonce: '' })
  assert.deepEqual([1, 2, 3].map((n) => m.claim(proof(n), 10_000)), ['first', 'first', 'busy'])
  for (let n = 10; n < 16; n++) assert.equal(m.claim(proof(n, 'k' + n), 10_000), 'first')
  assert.equal(m.claim(proof(20, 'other'), 10_000), 'full')
  assert.equal(m.claim(proof(1), 10_060), 'used')
  assert.equal(m.claim({ ...proof(21), issuedAt: 10_100 }, 10_100), 'first', 'the old ones are dropped')
  assert.equal(m.claim(proof(1), 10_000), 'used', 'also when the clock is set back')
})

test('proofs from before the start need the nonce', () => {
  const m = new ReplayMemory(1000)
  const proof = { thumbprint: 'k', replayKey: '1', issuedAt: 1120, nonce: '' }
  assert.equal(m.claim(proof, 1120), 'not covered')
  assert.equal(m.claim({ ...proof, nonce: m.nonce }, 1120), 'first')
  assert.equal(m.claim({ ...proof, nonce: m.nonce }, 1120), 'used')
  assert.equal(m.claim({ ...proof, replayKey: '2', issuedAt: 1121 }, 1121), 'first')
  assert.deepEqual([m.young(1239), m.young(1240)], [true, false])
})

test('a full revoked set refuses all tokens of before', () => {
  const r = new RevokedSet(2)
  const event = (id, at) => ({ id, at, until: at + 900 })
  r.add([event('a', 1000), event('b', 1000)], 1000, 1)
  assert.deepEqual([r.has(['a'], 999), r.has(['c'], 999)], [true, false])
  r.add([event('c', 1000)], 1000, 1)
  assert.deepEqual([r.has(['x'], 1005), r.has(['x'], 1006), r.has(['c'], 1006)], [true, false, true])
  r.add([event('d', 900), event('e', 900)], 900, 2) // the wall clock was set back
  assert.equal(r.has(['x'], 1005), true)
})

test('the wall clock does not decide how long a revocation is kept', () => {
  const r = new RevokedSet()
  r.add([{ id: 'a', at: 1000, until: 2000 }], 1000, 1)
  r.add([{ id: 'b', at: 1000, until: 2000 }], 9e9, 2)
  assert.deepEqual([r.has(['a'], 999), r.has(['b'], 999)], [true, true])
  r.add([], 1000, 1400)
  assert.deepEqual([r.has(['a'], 999), r.has(['b'], 999)], [false, false])
})

test('the age of the revoked set is unknown when the clock was set back, and counts suspended time', () => {
  const r = new RevokedSet()
  assert.equal(r.known(0, 0, 10), false)
  r.complete(1000, 50, 0)
  assert.deepEqual([r.known(1010, 50, 10), r.known(1011, 50, 10), r.known(999, 50, 10), r.known(1000, 61, 10)], [true, false, false, false])
})

test('scopes as in the Go package', () => {
  for (const [have, need, want] of [
    ['orders:eu/*:read', 'orders:eu/42:read', true], ['orders:eu/**:*', 'orders:eu/4/2:write', true], ['orders:eu/**:read', 'orders:eu:read', false],
    ['orders:*:read', 'orders:eu/42:read', false], ['orders:eu/42:read', 'orders:eu/*:read', false], ['orders:**:read', 'orders:a/**:read', true],
    ['orders:a/**:read', 'orders:**:read', false], ['a:b:c d:e:f', 'd:e:f a:b:c', true], ['', 'a:b:c', false],
  ]) assert.equal(covers(have, need), want, `${have} covers ${need}`)
  for (const bad of ['a', 'a:b', 'a:b:c:d', ':b:c', 'A:b:c', 'a::c', 'a:b/:c', 'a:..:c', 'a:**/b:c', 'a:b*:c', 'a:***:c', 'a:b:', 'a:b:**', 'a:b:c ', 'a:b:c\n', 'a:é:c']) {
    assert.throws(() => covers(bad, 'a:b:c'), bad)
  }
})

test('strict JSON', () => {
  const parse = (text) => parseObject(new TextEncoder().encode(text), { depth: 3, members: 4 })
  assert.deepEqual([...parse('{"__proto__":{"a":[true,false,null,"\\u00e9"]}}').keys()], ['__proto__'])
  for (const bad of ['', '[]', 'null', '{', '{}{}', '{"a":1,}', '{"a":1,"a":1}', '{"a":1,"\\u0061":1}', '{"a":{"b":1,"b":2}}', '{"a":[[[]]]}', '{"a":1,"b":1,"c":1,"d":1,"e":1}',
    '{"a":01}', '{"a":1.}', '{"a":.1}', '{"a":+1}', '{"a":-}', '{"a":1e}', '{"a":NaN}', '{"a":tru}', '{"a":"\\x"}', '{"a":"\\u12"}', '{"a":"\\ud800"}', '{"a":"\t"}', "{'a':1}", '{a:1}', '{"a" 1}',
    '\ufeff{}', '{"a":"\u0000"}', '{"a":constructor}', '{"a":"\\constructor"}']) {
    assert.throws(() => parse(bad), /./, bad)
  }
})

test('a configuration without a scope, with a short staleness or with plain http is refused', () => {
  for (const bad of [{ scope: '' }, { scope: 'everything' }, { maxStalenessSeconds: 2 }, { maxStalenessSeconds: NaN }, { resource: 'http://orders.test' }, { issuer: 'http://ebb.test' },
    { resource: 'https://orders.test/#a' }, { resource: 'orders', publicUrl: 'https://orders.test' }, { publicUrl: 'http://orders.test' }, { publicUrl: 'https://orders.test/?a' }]) {
    assert.throws(() => new Verifier({ ...config, ...bad }), undefined, JSON.stringify(bad))
  }
})

test('a refusal is a challenge and a problem document', async () => {
  const v = new Verifier(config)
  assert.equal(metadataPath(v), '/.well-known/oauth-protected-resource/api')
  assert.deepEqual(metadata(v).authorization_servers, ['https://ebb.test'])
  const handler = protect(v, () => assert.fail('let through'))
  const none = await handler(new Request('https://orders.test/api'))
  assert.equal(none.status, 401)
  assert.equal(none.headers.get('www-authenticate'), 'DPoP realm="https://orders.test/api", algs="ES256 EdDSA Ed25519", resource_metadata="https://orders.test/.well-known/oauth-protected-resource/api"')
  assert.equal(none.headers.get('cache-control'), 'no-store')
  const bad = await handler(new Request('https://orders.test/api', { headers: { authorization: 'DPoP x' } }))
  assert.match(bad.headers.get('www-authenticate'), /error="invalid_token", error_description="The access token was refused\."/)
  const scope = refusal(v, new VerifyError('insufficient_scope', 'No.', { scope: 'a:b:c' }))
  assert.match(scope.headers['www-authenticate'], /scope="a:b:c"/)
  assert.equal(scope.status, 403)
  const unknown = refusal(v, new Error('secret cause'))
  assert.equal(unknown.status, 500)
  assert.doesNotMatch(JSON.stringify(unknown), /secret cause/)
})

test('the adapter for node:http sees several headers of one name', async () => {
  const v = new Verifier(config)
  const response = { headers: {}, setHeader(name, value) { this.headers[name] = value }, end(body) { this.body = body } }
  const rawHeaders = ['Authorization', 'DPoP a', 'authorization', 'Bearer b']
  await middleware(v)({ method: 'GET', url: '/api', rawHeaders }, response, () => assert.fail('let through'))
  assert.equal(response.statusCode, 400)
  assert.match(response.headers['www-authenticate'], /invalid_request/)
})

test('a path that encodes plain characters does not reach a scope function', async () => {
  const request = (target) => ({ method: 'GET', target, authorization: ['DPoP x'], dpop: [] })
  const v = new Verifier({ ...config, scope: (r) => (r.target.startsWith('/admin') ? 'orders:admin:write' : 'orders:eu/42:read') })
  for (const target of ['/%61dmin', '/a%64min?x', '/%2e/admin', '/%7E', '/%5Fx']) await assert.rejects(v.verify(request(target)), { code: 'invalid_request' }, target)
  for (const target of ['/admin', '/a%2Fb', '/%C3%A9', '/%20', '/x?q=%61']) await assert.rejects(v.verify(request(target)), { code: 'invalid_token' }, target)
  await assert.rejects(new Verifier(config).verify(request('/%61dmin')), { code: 'invalid_token' })
})

test('no part of the package needs an API of Node.js', () => {
  const dist = new URL('../dist/', import.meta.url)
  for (const name of readdirSync(dist, { recursive: true }).filter((n) => n.endsWith('.js'))) {
    const code = readFileSync(new URL(name, dist), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
    assert.doesNotMatch(code, /from 'node:|\bBuffer\b|\bprocess\.|\brequire\(|setImmediate/, name)
    for (const [, from] of code.matchAll(/ from '([^']+)'/g)) assert.match(from, /^(\.|jose$)/, name)
  }
})
