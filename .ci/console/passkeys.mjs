// 13 and 15: passkeys, with Chromium's virtual authenticator.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const sha = (b) => crypto.createHash('sha256').update(b).digest();
const unb64 = (s) => Buffer.from(s, 'base64url');

let keys = 0;

// person returns the browser of a person, with a virtual authenticator that has a registered passkey.
export async function person(site, who) {
  const c = await site.context();
  const p = await c.newPage();
  const cdp = await c.newCDPSession(p);
  await cdp.send('WebAuthn.enable');
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  const signIn = async () => {
    await p.goto(await site.link(who));
    await p.getByRole('button', { name: 'Sign in' }).click();
    await p.waitForURL('**/queue');
  };
  await signIn();
  await p.goto(site.url + '/settings');
  const name = `Key ${++keys} of ${who}`; // who may have one already
  await p.getByLabel('Name of a new passkey').fill(name);
  await p.getByRole('button', { name: 'Add a passkey' }).click();
  await p.getByText(name, { exact: true }).waitFor();
  const made = async () => (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials;
  const [key] = await made();
  assert(key.isResidentCredential && key.rpId === new URL(site.url).hostname, JSON.stringify({ ...key, privateKey: '' }));
  assert.deepEqual(Buffer.from(key.userHandle, 'base64'), sha(who), 'the user handle names nobody');
  return { c, p, cdp, name, authenticatorId, made, signIn, id: Buffer.from(key.credentialId, 'base64').toString('hex') };
}

// form fills and sends the form of this choice as it is, without the script of the page.
async function form(p, choice, fields) {
  const answer = p.waitForResponse((r) => r.request().method() === 'POST');
  const loaded = p.waitForEvent('load');
  await p.evaluate(({ choice, fields }) => {
    const f = document.querySelector(`input[name=choice][value=${choice}]`).form;
    const target = f.querySelector('label[for$=target] .name');
    if (target && f.elements.target) f.elements.target.value = target.textContent;
    for (const [name, value] of Object.entries(fields)) f.elements[name].value = value;
    HTMLFormElement.prototype.submit.call(f);
  }, { choice, fields });
  const status = (await answer).status();
  await loaded;
  if (status === 403) assert((await p.getByRole('alert').textContent()).includes('not valid for this answer'));
  return status;
}

// sign has the authenticator sign what the form of this choice asks for, with what is typed
// into it.
const sign = (p, choice) => p.evaluate(async (choice) => {
  const form = document.querySelector(`input[name=choice][value=${choice}]`).form;
  const at = new URL(form.dataset.passkey, location.href);
  const typed = new FormData(form);
  for (const [name, value] of typed) if (value && /^(part|scope|minutes|keep\[\]|within-\d+)$/.test(name)) at.searchParams.append(name, value);
  const r = await fetch(at);
  const { options, state } = await r.json();
  const made = await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  return { assertion: JSON.stringify(made), state };
}, choice);

// pointOf reads the point of a COSE key (RFC 9052 section 7) on P-256, as Chromium writes it.
function pointOf(cose) {
  const head = Buffer.from('a5010203262001215820', 'hex');
  assert(cose.subarray(0, head.length).equals(head) && cose.length === 77, cose.toString('hex'));
  return { x: cose.subarray(10, 42).toString('base64url'), y: cose.subarray(45, 77).toString('base64url') };
}

// proved verifies a vote as an outsider would, with nothing but the export of the audit log.
function proved(site, lines, request, who, passkey) {
  const voted = lines.find((l) => l.kind === 'request.voted' && l.request_id === request && l.actor === who).data;
  assert.equal(voted.choice, 'narrow');
  assert.equal(voted.passkey, passkey);
  const { kept } = lines.find((l) => l.kept?.request_id === request && l.kept.by === who);
  assert.equal(sha(kept.proof).toString('hex'), voted.proof_sha256);
  assert.equal(sha(kept.seen).toString('hex'), voted.seen_sha256);
  const proof = JSON.parse(kept.proof);
  const key = Buffer.from(proof.public_key, 'base64');
  const added = lines.find((l) => l.kind === 'passkey.added' && l.data.passkey === passkey);
  assert.equal(added.actor, who);
  assert.equal(added.data.public_key_sha256, sha(key).toString('hex'));
  const r = proof.assertion.response;
  const client = JSON.parse(unb64(r.clientDataJSON));
  assert.equal(client.type, 'webauthn.get');
  assert.equal(client.origin, site.url);
  assert.equal(client.challenge, sha(Buffer.concat([Buffer.from(`ebb-decision-v2|${request}|narrow|${voted.digest}|${voted.ttl}|${voted.scope}|`), Buffer.from(proof.salt, 'base64')])).toString('base64url'));
  const data = unb64(r.authenticatorData);
  assert(data.subarray(0, 32).equals(sha(new URL(site.url).hostname)));
  assert.equal(data[32] & 5, 5, 'the person was there, and verified');
  assert.equal(unb64(r.userHandle).toString('hex'), sha(who).toString('hex'));
  const signed = Buffer.concat([data, sha(unb64(r.clientDataJSON))]);
  const jwk = { kty: 'EC', crv: 'P-256', ...pointOf(key) };
  assert(crypto.verify('sha256', signed, { key: crypto.createPublicKey({ key: jwk, format: 'jwk' }) }, unb64(r.signature)));
}

export async function passkeys(site) {
  const mia = await person(site, 'mia');
  const { p } = mia;
  await p.getByRole('button', { name: 'Sign out', exact: true }).click();
  await p.waitForURL('**/signin');
  await mia.signIn();
  const requests = await p.locator('[data-request]').evaluateAll((all) => all.map((e) => e.dataset.request));
  assert(requests.length >= 2, `${requests.length} requests wait`);
  const [first, second] = requests;
  const at = (r) => p.goto(`${site.url}/requests/${r}`);

  // 13: a narrower approval, by the button alone. While a person types, the form states the scopes and the time.
  await at(first);
  const form13 = p.waitForRequest((r) => r.method() === 'POST');
  const answered = p.waitForResponse((r) => r.request().method() === 'POST');
  await p.locator('summary', { hasText: 'Approve narrower' }).click();
  const remains = p.locator('[data-remains]');
  await p.locator('#minutes').fill('0');
  await p.getByText('Enter a whole number of minutes').waitFor();
  assert.equal(await remains.innerText(), '');
  await p.locator('#minutes').fill('1');
  await remains.filter({ hasText: /^You would approve for 1 min: ./ }).waitFor();
  const name = p.locator('label[for=narrow-target] .name');
  if (await name.count()) await p.locator('#narrow-target').fill(await name.innerText());
  await p.getByRole('button', { name: 'Approve narrower' }).click();
  const sent = Object.fromEntries(new URLSearchParams((await form13).postData()));
  assert.equal((await answered).status(), 303);
  assert(JSON.parse(sent.assertion).response.userHandle, 'Chromium sends the user handle of a resident key');
  const eve = await site.context('eve');
  const seen = await eve.newPage();
  await seen.goto(site.url + '/audit');
  const jsonl = await seen.evaluate(async () => (await fetch([...document.querySelectorAll('a')].find((a) => a.textContent.includes('pages and signatures')).href)).text());
  proved(site, jsonl.trim().split('\n').map((l) => JSON.parse(l)), first, 'mia', mia.id);
  await seen.goto(`${site.url}/requests/${first}/snapshot/mia`);
  assert((await seen.textContent('main')).includes(`The signature is valid, checked now: by passkey ${mia.id.slice(0, 16)}`));
  await eve.close();
  // And by ebb's own verifier, offline.
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'ebb-kept-'));
  try {
    fs.writeFileSync(path.join(dir, 'record.jsonl'), jsonl);
    fs.writeFileSync(path.join(dir, 'jwks.json'), await (await fetch(`http://127.0.0.1:${new URL(site.url).port}/.well-known/jwks.json`)).text());
    const verify = () => JSON.parse(execFileSync(site.ebb, ['audit', 'verify', path.join(dir, 'record.jsonl'), '--keys', path.join(dir, 'jwks.json'), '-o', 'json'], { stdio: 'pipe' }));
    const report = verify();
    assert(report.signed === 1 && report.unregistered === 0, JSON.stringify(report));
    fs.writeFileSync(path.join(dir, 'record.jsonl'), jsonl.replace(/(\\"signature\\":\\")..../, '$1AAAA'));
    assert.throws(verify, /NOT PROVED/);
  } finally {
    fs.rmSync(dir, { recursive: true });
  }

  // 15: the same form twice.
  await at(second);
  assert.equal(await p.evaluate(({ action, sent }) => {
    const f = document.createElement('form');
    f.method = 'post';
    f.action = action;
    for (const [name, value] of Object.entries(sent)) {
      const i = document.createElement('input');
      [i.type, i.name, i.value] = ['hidden', name, value];
      f.append(i);
    }
    document.body.append(f);
    f.id = 'again';
  }, { action: `${site.url}/requests/${first}/decide`, sent }), undefined);
  const again = p.waitForResponse((r) => r.request().method() === 'POST');
  const drawn = p.waitForEvent('load');
  await p.evaluate(() => document.getElementById('again').submit());
  assert.equal((await again).status(), 409, 'the same form twice');
  await drawn;

  // Signed for a smaller yes, sent as the whole one; of this person for another request; twice.
  await at(second);
  const narrow = await sign(p, 'narrow');
  assert.equal(await form(p, 'approve', narrow), 403, 'signed for narrow, sent as approve');
  await at(second);
  assert.equal(await form(p, 'narrow', { ...narrow, minutes: '1' }), 403, 'other minutes than were signed');
  await at(second);
  assert.equal(await form(p, 'narrow', { assertion: sent.assertion, state: sent.state }), 403, 'signed for another request');
  // Another person with a passkey of their own.
  const tom = await person(site, 'tom');
  await tom.p.goto(`${site.url}/requests/${second}`);
  assert.equal(await form(tom.p, 'narrow', narrow), 403, "another's assertion");
  await tom.c.close();
  // A copy of the passkey that counts from the beginning.
  const [key] = await mia.made();
  await mia.cdp.send('WebAuthn.clearCredentials', { authenticatorId: mia.authenticatorId });
  await mia.cdp.send('WebAuthn.addCredential', { authenticatorId: mia.authenticatorId, credential: { ...key, signCount: 0 } });
  await at(second);
  assert.equal(await form(p, 'narrow', await sign(p, 'narrow')), 403, 'the counter goes back');
  await mia.cdp.send('WebAuthn.clearCredentials', { authenticatorId: mia.authenticatorId });
  await mia.cdp.send('WebAuthn.addCredential', { authenticatorId: mia.authenticatorId, credential: { ...key, signCount: 100 } });
  // A passkey that was removed meanwhile.
  await at(second);
  const late = await sign(p, 'narrow');
  await p.goto(site.url + '/settings');
  await p.getByRole('button', { name: 'Remove' }).click();
  await p.getByText(mia.name, { exact: true }).waitFor({ state: 'detached' });
  await at(second);
  assert.equal(await form(p, 'narrow', late), 403, 'a removed passkey');
  assert.equal((await at(second)).status(), 200);
  assert.equal(await p.locator('input[name=choice][value=approve]').count(), 1, 'it still waits');
  await mia.c.close();
}
