// Break-glass, with Chromium's virtual authenticator: begun, used, ended and reviewed, and each of its pages in every view.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { person } from './passkeys.mjs';
import { look } from './every.mjs';

async function walk(site) {
  if (process.argv[3]) fs.mkdirSync(process.argv[3], { recursive: true });
  const { c, p, signIn } = await person(site, 'tom');
  await signIn(); // a passkey counts that was made before the session
  const others = await site.context('mia');
  const mia = await others.newPage();
  const told = async () => {
    await mia.goto(site.url + '/settings');
    return mia.getByRole('complementary', { name: 'Break-glass' }).count();
  };
  assert.equal(await told(), 0, 'before');
  await p.goto(site.url + '/break-glass');
  await p.getByLabel('Incident or ticket').fill('INC-2077');
  await p.getByLabel('Why you cannot wait for another approver').fill('Sam does not answer, and the credits are promised for noon.');
  await p.getByRole('button', { name: 'Continue' }).click();
  await p.getByRole('heading', { name: 'Start break-glass' }).waitFor();
  await look(p, 'breakglass-plan');
  assert.equal(await told(), 0, 'nothing began yet');
  await p.getByRole('button', { name: 'Start break-glass' }).click();
  await p.waitForURL('**/break-glass/brk_*');
  const at = p.url();
  assert.equal(await told(), 1, 'everybody is told');
  await look(p, 'breakglass-open');
  await look(mia, 'breakglass-told');
  await p.goto(site.url + '/queue?provider=billing');
  const found = await p.locator('main a[href^="/requests/req_"]').first().getAttribute('href');
  await p.goto(site.url + found);
  await look(p, 'breakglass-request');
  const target = await p.locator('label[for=alone-target] .name').textContent();
  await p.locator('#alone-target').fill(target);
  await p.getByRole('button', { name: /^Approve alone/ }).click();
  await p.waitForURL((u) => u.pathname === found && !u.search);
  await p.getByText('approved alone, under break-glass').waitFor();
  await p.goto(at);
  await p.getByText('1 of at most').waitFor();
  await p.getByRole('button', { name: 'End break-glass now' }).click();
  await p.getByText('by tom').waitFor();
  const auditors = await site.context('eve');
  const eve = await auditors.newPage();
  await eve.goto(at);
  await look(eve, 'breakglass-review');
  await eve.getByLabel('Result of the review').fill('Credits as promised.');
  await eve.getByRole('button', { name: 'Close the review' }).click();
  await eve.getByText('Credits as promised.').waitFor();
  assert.equal(await told(), 0, 'reviewed');
  for (const x of [c, others, auditors]) {
    assert.deepEqual(x.faults, []);
    await x.close();
  }
  return 'plan, open, request, review, in every view';
}

export const checks = [['break-glass', walk]];
