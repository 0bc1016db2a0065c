package gitpush_test

import (
	"fmt"
	"strings"
)

const (
	certHead = "certificate version 0.1\n|pusher A <a@example.com> 1767225600 +0000\n|pushee https://host/o/r\n|nonce 1-x\n|\n"
	certSign = "-----BEGIN SSH SIGNATURE-----\n|U1NIU0lHAAAAAQ==\n|-----END SSH SIGNATURE-----\n"
)

// certificate returns a push with a certificate of lines that | separates.
func certificate(lines, rest string) string {
	b := pkt("push-cert\x00" + caps)
	for line := range strings.SplitSeq(lines, "|") {
		b += pkt(line)
	}
	return b + rest
}

func (h *target) certificates() []hostile {
	create, main := cmd(zero, h.b, "refs/heads/y"), cmd(h.b, zero, "refs/heads/main")
	end := pkt("push-cert-end\n") + "0000" + empty
	all := []hostile{
		{name: "certificate/fine", body: certificate(certHead+"|"+create+"\n|"+main+"\n|"+certSign, end), want: "create refs/heads/y; delete refs/heads/main", landed: 2},
		{name: "certificate/PGP", body: certificate(certHead+"|"+create+"\n|-----BEGIN PGP SIGNATURE-----\n|Comment: push-cert-end\n|\n|aGk=\n|=abcd\n|-----END PGP SIGNATURE-----\n", end), want: "create refs/heads/y", landed: 1},
		{name: "certificate/delete outside", body: certificate(certHead+"|"+create+"\n|"+certSign, pkt("push-cert-end\n")+pkt(main)+"0000"+empty), want: "outside its push certificate"},
		{name: "certificate/two", body: certificate(certHead+"|"+create+"\n|"+certSign, pkt("push-cert-end\n")) + certificate(certHead+"|"+main+"\n|"+certSign, end), want: "outside its push certificate"},
		{name: "certificate/after a command", body: pkt(main+"\x00"+caps) + certificate(certHead+"|"+create+"\n|"+certSign, end), want: "a NUL byte"},
	}
	for name, lines := range map[string]string{
		"end inside the signature":       certHead + "|" + create + "\n|-----BEGIN SSH SIGNATURE-----\n|push-cert-end\n|" + main + "\n|-----END SSH SIGNATURE-----\n",
		"end after the signature's head": certHead + "|" + create + "\n|-----BEGIN SSH SIGNATURE-----\n|aGk=\n|push-cert-end\n",
		"command inside the signature":   certHead + "|" + create + "\n|-----BEGIN SSH SIGNATURE-----\n|" + main + "\n|-----END SSH SIGNATURE-----\n",
		"command after the signature":    certHead + "|" + create + "\n|" + certSign + "|" + main + "\n",
		"two signatures":                 certHead + "|" + create + "\n|" + certSign + "|" + main + "\n|" + certSign,
		"signature in the headers":       "certificate version 0.1\n|-----BEGIN SSH SIGNATURE-----\n|-----END SSH SIGNATURE-----\n|\n|" + create + "\n|" + certSign,
		"no signature":                   certHead + "|" + create + "\n",
		"no commands":                    certHead + "|" + certSign,
		"no headers":                     "certificate version 0.1\n|\n|" + create + "\n|" + certSign,
		"no version":                     strings.TrimPrefix(certHead, "certificate version 0.1\n|") + "|" + create + "\n|" + certSign,
		"other version":                  strings.Replace(certHead, "0.1", "0.2", 1) + "|" + create + "\n|" + certSign,
		"unknown header":                 strings.Replace(certHead, "nonce", "frotz", 1) + "|" + create + "\n|" + certSign,
		"push option":                    strings.Replace(certHead, "nonce 1-x", "push-option ci.skip", 1) + "|" + create + "\n|" + certSign,
		"two lines in a packet":          certHead + "|" + create + "\n" + main + "\n|" + certSign,
		"a line in two packets":          certHead + "|" + create[:50] + "|" + create[50:] + "\n|" + certSign,
		"empty line among commands":      certHead + "|" + create + "\n|\n|" + main + "\n|" + certSign,
		"NUL":                            certHead + "|" + create + "\x00" + main + "\n|" + certSign,
		"NUL before the newline":         certHead + "|" + create + "\x00\n|" + certSign,
		"capabilities in a command":      certHead + "|" + create + "\x00" + caps + "\n|" + certSign,
		"carriage return":                certHead + "|" + create + "\r\n|" + certSign,
		"unended line":                   certHead + "|" + create + "|" + certSign,
		"HEAD":                           certHead + "|" + cmd(zero, h.b, "HEAD") + "\n|" + certSign,
		"shallow inside":                 certHead + "|shallow " + h.a + "\n|" + create + "\n|" + certSign,
		"end without a newline":          certHead + "|" + create + "\n|" + certSign + "|push-cert-end",
	} {
		all = append(all, hostile{name: "certificate/" + name, body: certificate(lines, end), want: "the body is refused"})
	}
	for name, rest := range map[string]string{"flush inside": "0000" + empty, "delimiter inside": "0001" + end, "no end": "", "flush and end": "0000" + end} {
		all = append(all, hostile{name: "certificate/" + name, body: certificate(certHead+"|"+create+"\n|"+certSign, rest), want: "the body is refused"})
	}
	return all
}

func (h *target) shallows() []hostile {
	create := cmd(zero, h.b, "refs/heads/y") + "\x00" + caps
	k := newPacker(40)
	c := k.commit(h.tree, "c", h.b)
	d := k.commit(h.tree, "d", c)
	ahead := cmd(h.b, d, "refs/heads/main") + "\x00" + caps
	many := ""
	for i := range 4097 {
		many += pkt(fmt.Sprintf("shallow %040x", i))
	}
	return []hostile{
		{name: "shallow/unrelated", body: pkt("shallow "+h.a) + body(empty, create), want: "create refs/heads/y", landed: 1},
		{name: "shallow/old commit", body: pkt("shallow "+h.b) + body(k.pack(), ahead), want: "update refs/heads/main 2", landed: 1},
		{name: "shallow/between", body: pkt("shallow "+c) + body(k.pack(), ahead), want: "force refs/heads/main not-proven", landed: 1},
		{name: "shallow/new commit", body: pkt("shallow "+d) + body(k.pack(), ahead), want: "force refs/heads/main commits-not-in-pack", landed: 1},
		{name: "shallow/nothing to push", body: pkt("shallow "+h.a) + "0000"},
		{name: "shallow/nothing to push with a pack", body: pkt("shallow "+h.a) + "0000" + empty, want: "data follows"},
		{name: "shallow/SHA-256 and nothing to push", body: pkt("shallow "+h.a+h.a[:24]) + "0000"},
		{name: "shallow/of another format", body: pkt("shallow "+h.a+h.a[:24]) + body(empty, create), want: "does not consist"},
		{name: "shallow/after the commands", body: pkt(create) + pkt("shallow "+h.a) + "0000" + empty, want: "does not consist"},
		{name: "shallow/short", body: pkt("shallow "+h.a[:39]) + body(empty, create), want: "does not consist"},
		{name: "shallow/no id", body: pkt("shallow ") + body(empty, create), want: "does not consist"},
		{name: "shallow/upper-case", body: pkt("shallow "+strings.ToUpper(h.a)) + body(empty, create), want: "does not consist"},
		{name: "shallow/command behind", body: pkt("shallow "+h.a+" "+create) + body(empty, create), want: "does not consist"},
		{name: "shallow/command behind a NUL", body: pkt("shallow "+h.a+"\x00"+create) + body(empty, create), want: "does not consist"},
		{name: "shallow/too many", body: many + body(empty, create), want: "4096 shallow commits"},
	}
}

func (h *target) packs() []hostile {
	create := cmd(zero, h.b, "refs/heads/y")
	text := commitText(h.tree, "c", h.b)
	k := newPacker(40)
	c := k.object(1, text)
	good, ahead := k.pack(), cmd(h.b, c, "refs/heads/main")
	with := func(entries ...string) string {
		k := newPacker(40)
		for _, e := range entries {
			k.raw(e)
		}
		return body(k.pack(), ahead)
	}
	broken := deflate(text)
	z := func(text string) string { return head(1, len(text)) + deflate(text) }
	all := []hostile{
		{name: "pack/fine", body: body(good, ahead), want: "update refs/heads/main 1", landed: 1},
		{name: "pack/version 3", body: body(k.sealed(strings.Replace(good[:len(good)-20], "\x02", "\x03", 1)), ahead), want: "update refs/heads/main 1", landed: 1},
		{name: "pack/missing", body: body("", create), want: "ends too early"},
		{name: "pack/header only", body: body(empty[:12], create), want: "ends too early"},
		{name: "pack/half a header", body: body(empty[:7], create), want: "ends too early"},
		{name: "pack/version 4", body: body(k.sealed("PACK\x00\x00\x00\x04\x00\x00\x00\x00"), create), want: "not followed by a pack"},
		{name: "pack/lower-case", body: body(strings.ToLower(empty), create), want: "not followed by a pack"},
		{name: "pack/newline before", body: body("\n"+empty, create), want: "not followed by a pack"},
		{name: "pack/flush before", body: body("0000"+empty, create), want: "not followed by a pack"},
		{name: "pack/wrong sum", body: body(empty[:31]+"x", create), want: "malformed"},
		{name: "pack/byte after", body: body(good+"x", ahead), want: "data follows"},
		{name: "pack/truncated", body: body(good[:60], ahead), want: "ends too early"},
		{name: "pack/truncated sum", body: body(good[:len(good)-1], ahead), want: "ends too early"},
		{name: "pack/more objects stated", body: body(k.sealed(strings.Replace(good[:len(good)-20], "\x01", "\x02", 1)), ahead), want: "the body is refused"},
		{name: "pack/fewer objects stated", body: body(k.sealed(strings.Replace(good[:len(good)-20], "\x01", "\x00", 1)), ahead), want: "the body is refused"},
		{name: "pack/2^32-1 objects stated", body: body("PACK\x00\x00\x00\x02\xff\xff\xff\xff"+good[12:], ahead), want: "the body is refused"},
		{name: "pack/type 0", body: with(head(0, 10) + deflate(text[:10])), want: "malformed"},
		{name: "pack/type 5", body: with(head(5, 10) + deflate(text[:10])), want: "malformed"},
		{name: "pack/corrupted", body: with(head(1, len(text)) + broken[:20] + "\xff\xff\xff\xff" + broken[24:]), want: "malformed"},
		{name: "pack/wrong Adler-32", body: with(head(1, len(text)) + broken[:len(broken)-1] + "x"), want: "malformed"},
		{name: "pack/dictionary", body: with(head(1, len(text)) + "\x78\xbb\x00\x00\x00\x02" + broken[2:]), want: "malformed"},
		{name: "pack/empty dictionary", body: with(head(1, len(text)) + "\x78\xbb\x00\x00\x00\x01" + broken[2:]), want: "update refs/heads/main 1"}, // only the server refuses it; the id is proven all the same
		{name: "pack/not zlib", body: with(head(1, len(text)) + text), want: "malformed"},
		{name: "pack/size too small", body: with(head(1, len(text)-1) + broken), want: "malformed"},
		{name: "pack/size too large", body: with(head(1, len(text)+1) + broken), want: "malformed"},
		{name: "pack/size 0", body: with(head(1, 0) + broken), want: "malformed"},
		{name: "pack/size 2^60", body: with(head(1, 1<<60) + broken), want: "malformed"},
		{name: "pack/endless size", body: with("\x90" + strings.Repeat("\x80", 100) + broken), want: "malformed"},
		{name: "pack/64 KiB + 1", body: with(head(1, 64<<10+1) + deflate(text+strings.Repeat("x", 64<<10+1-len(text)))), want: "force refs/heads/main too-large"},
		{name: "pack/bomb", body: with(head(1, 1<<30) + deflate(strings.Repeat("x", 8<<20))), want: "force refs/heads/main too-large"},
		{name: "pack/bomb in a small entry", body: with(head(1, 100) + deflate(strings.Repeat("x", 8<<20))), want: "malformed"},
		{name: "pack/commit without a tree", body: with(z("parent " + h.b + "\n" + who)), want: "malformed"},
		{name: "pack/empty commit object", body: with(z("")), want: "malformed"},
		{name: "pack/upper-case parent", body: with(z("tree " + h.tree + "\nparent " + strings.ToUpper(h.b) + "\n" + who)), want: "malformed"},
		{name: "pack/short parent", body: with(z("tree " + h.tree + "\nparent " + h.b[:39] + "\n" + who)), want: "malformed"},
		{name: "pack/parent with more", body: with(z("tree " + h.tree + "\nparent " + h.b + " \n" + who)), want: "malformed"},
		{name: "pack/parent that ends the text", body: with(z("tree " + h.tree + "\nparent " + h.b)), want: "malformed"},
		{name: "pack/tree of another format", body: with(z("tree " + h.tree + h.tree[:24] + "\n" + who)), want: "malformed"},
	}
	return append(all, h.deltas()...)
}

func (h *target) deltas() []hostile {
	base, text := commitText(h.tree, strings.Repeat("c", 100), h.b), commitText(h.tree, "d", h.b)
	of := func(build func(k *packer, base string)) string {
		k := newPacker(40)
		build(k, k.object(1, base))
		return body(k.pack(), cmd(h.b, k.sum("commit", text), "refs/heads/main"))
	}
	delta := func(d string) string { return of(func(k *packer, id string) { k.ofsDelta(id, d) }) }
	n := varint(len(base))
	return []hostile{
		{name: "delta/offset", body: delta(deltaOf(base, text)), want: "update refs/heads/main 1", landed: 1},
		{name: "delta/id", body: of(func(k *packer, id string) { k.refDelta(id, deltaOf(base, text)) }), want: "update refs/heads/main 1", landed: 1},
		{name: "delta/chain", body: of(func(k *packer, id string) {
			for i := range 20 {
				next := commitText(h.tree, fmt.Sprint("chain", i), h.b)
				k.refDelta(id, deltaOf(base, next))
				base, id = next, k.sum("commit", next)
			}
			k.refDelta(id, deltaOf(base, text))
			base = commitText(h.tree, strings.Repeat("c", 100), h.b)
		}), want: "update refs/heads/main 1", landed: 1},
		{name: "delta/of a commit of the server", body: of(func(k *packer, _ string) { k.refDelta(h.b, deltaOf(base, text)) }), want: "force refs/heads/main commits-not-in-pack"},
		{name: "delta/of nothing", body: of(func(k *packer, _ string) { k.refDelta(strings.Repeat("a", 40), deltaOf(base, text)) }), want: "force refs/heads/main commits-not-in-pack"},
		{name: "delta/into an object", body: of(func(k *packer, id string) { k.at[id]++; k.ofsDelta(id, deltaOf(base, text)) }), want: "malformed"},
		{name: "delta/into the header", body: of(func(k *packer, id string) { k.at[id] = 4; k.ofsDelta(id, deltaOf(base, text)) }), want: "malformed"},
		{name: "delta/before the pack", body: of(func(k *packer, id string) { k.at[id] = -200; k.ofsDelta(id, deltaOf(base, text)) }), want: "malformed"},
		{name: "delta/of itself", body: of(func(k *packer, _ string) { k.raw(head(6, 10) + "\x00" + deflate(text[:10])) }), want: "malformed"},
		{name: "delta/endless offset", body: of(func(k *packer, _ string) { k.raw(head(6, 10) + strings.Repeat("\xff", 40)) }), want: "malformed"},
		{name: "delta/base size too small", body: delta(varint(len(base)-1) + deltaOf(base, text)[len(n):]), want: "malformed"},
		{name: "delta/base size too large", body: delta(varint(len(base)+1) + deltaOf(base, text)[len(n):]), want: "malformed"},
		{name: "delta/copy beyond the base", body: delta(n + varint(100) + "\x91\xf0\xff"), want: "malformed"},
		{name: "delta/copy behind the base", body: delta(n + varint(100) + "\x9f\xff\xff\xff\x7f\x10"), want: "malformed"},
		{name: "delta/truncated copy", body: delta(n + varint(100) + "\x9f\x00"), want: "malformed"},
		{name: "delta/truncated insert", body: delta(n + varint(100) + "\x64abc"), want: "malformed"},
		{name: "delta/reserved operation", body: delta(n + varint(1) + "\x00"), want: "malformed"},
		{name: "delta/result too short", body: delta(n + varint(5) + "\x03abc"), want: "malformed"},
		{name: "delta/result too long", body: delta(n + varint(2) + "\x03abc"), want: "malformed"},
		{name: "delta/empty", body: delta(""), want: "malformed"},
		{name: "delta/sizes only", body: delta(n + varint(0)), want: "malformed"},
		{name: "delta/endless size", body: delta(strings.Repeat("\xff", 100)), want: "malformed"},
		{name: "delta/bomb", body: delta(n + varint(1<<27) + strings.Repeat("\x90\x64", 30_000)), want: "force refs/heads/main too-large"},
		{name: "delta/many bombs", body: of(func(k *packer, id string) {
			for range 200 {
				k.ofsDelta(id, n+varint(60_000)+"\x90"+string([]byte{byte(len(base))})+strings.Repeat("\x01x", 60_000-len(base)))
			}
		}), want: "force refs/heads/main too-large"},
	}
}

// ancestries are pushes that pretend to be fast-forwards.
func (h *target) ancestries() []hostile {
	build := func(f func(k *packer) string) string {
		k := newPacker(40)
		after := f(k)
		return body(k.pack(), cmd(h.b, after, "refs/heads/main"))
	}
	lost := commitText(h.tree, "lost", h.a)
	blob := func(k *packer) { k.object(3, "a blob\n") }
	line := func(n int) string {
		return build(func(k *packer) string {
			id := h.b
			for i := range n {
				id = k.commit(h.tree, fmt.Sprint(i), id)
			}
			return id
		})
	}
	return []hostile{
		{name: "ancestry/sibling", body: build(func(k *packer) string { return k.object(1, lost) }), want: "force refs/heads/main not-proven", landed: 1},
		{name: "ancestry/root", body: build(func(k *packer) string { return k.commit(h.tree, "root") }), want: "force refs/heads/main not-proven", landed: 1},
		{name: "ancestry/second parent", body: build(func(k *packer) string { return k.commit(h.tree, "merge", h.a, h.b) }), want: "update refs/heads/main", landed: 1},
		{name: "ancestry/parents in the message", body: build(func(k *packer) string { return k.commit(h.tree, "parent "+h.b, h.a) }), want: "force refs/heads/main not-proven", landed: 1},
		{name: "ancestry/parent after the author", body: build(func(k *packer) string {
			return k.object(1, "tree "+h.tree+"\nparent "+h.a+"\n"+who+"parent "+h.b+"\n\nforged\n")
		}), want: "force refs/heads/main not-proven", landed: 1},
		{name: "ancestry/parent in a signature", body: build(func(k *packer) string {
			return k.object(1, "tree "+h.tree+"\nparent "+h.a+"\n"+who+"gpgsig x\n parent "+h.b+"\n\nforged\n")
		}), want: "force refs/heads/main not-proven", landed: 1},
		{name: "ancestry/parent as a tag", body: build(func(k *packer) string {
			k.object(4, "object "+h.b+"\ntype commit\ntag t\ntagger A <a@example.com> 0 +0000\n\nx\n")
			return k.object(1, lost)
		}), want: "force refs/heads/main not-proven", landed: 1},
		{name: "ancestry/new commit is another", body: build(func(k *packer) string { k.commit(h.tree, "honest", h.b); return h.a }), want: "force refs/heads/main commits-not-in-pack", landed: 1},
		{name: "ancestry/commit stated as a tag", body: build(func(k *packer) string {
			k.object(4, commitText(h.tree, "c", h.b))
			return k.sum("commit", commitText(h.tree, "c", h.b))
		}), want: "force refs/heads/main commits-not-in-pack"},
		{name: "ancestry/commit stated as a blob", body: build(func(k *packer) string {
			k.object(3, commitText(h.tree, "c", h.b))
			return k.sum("commit", commitText(h.tree, "c", h.b))
		}), want: "force refs/heads/main commits-not-in-pack"},
		{name: "ancestry/blob first", body: build(func(k *packer) string { blob(k); return k.commit(h.tree, "c", h.b) }), want: "force refs/heads/main commits-not-in-pack", landed: 1},
		{name: "ancestry/blob between", body: build(func(k *packer) string {
			old := commitText(h.tree, "c", h.b)
			id := k.commit(h.tree, "d", k.sum("commit", old))
			blob(k)
			k.object(1, old)
			return id
		}), want: "force refs/heads/main not-proven", landed: 1},
		{name: "ancestry/hidden side branch", body: build(func(k *packer) string {
			side := commitText(h.tree, "side", h.a)
			id := k.commit(h.tree, "d", h.b, k.sum("commit", side))
			blob(k)
			k.object(1, side)
			return id
		}), want: "update refs/heads/main", landed: 1},
		{name: "ancestry/parents first", body: build(func(k *packer) string { return k.commit(h.tree, "d", k.commit(h.tree, "c", h.b)) }), want: "update refs/heads/main 2", landed: 1},
		{name: "ancestry/object twice", body: build(func(k *packer) string { k.commit(h.tree, "c", h.b); return k.commit(h.tree, "c", h.b) }), want: "update refs/heads/main 1", landed: 1},
		{name: "ancestry/same parent twice", body: build(func(k *packer) string { return k.commit(h.tree, "c", h.b, h.b) }), want: "update refs/heads/main 1", landed: 1},
		{name: "ancestry/1000 parents", body: build(func(k *packer) string {
			parents := []string{h.b}
			for i := range 1000 {
				parents = append(parents, k.commit(h.tree, fmt.Sprint(i), h.a))
			}
			return k.commit(h.tree, "octopus", parents...)
		}), want: "update refs/heads/main", landed: 1},
		{name: "ancestry/long", body: line(2000), want: "update refs/heads/main 2000", landed: 1},
		{name: "ancestry/too many commits", body: line(9000), want: "force refs/heads/main too-large", landed: 1},
		{name: "ancestry/tag at a branch", body: build(func(k *packer) string {
			return k.object(4, "object "+k.commit(h.tree, "c", h.b)+"\ntype commit\ntag t\ntagger A <a@example.com> 0 +0000\n\nx\n")
		}), want: "force refs/heads/main commits-not-in-pack"},
		{name: "ancestry/tag of itself is a text", body: build(func(k *packer) string { return k.object(4, "object") }), want: "force refs/heads/main commits-not-in-pack"},
	}
}

func (h *target) encodings() []hostile {
	good := body(empty, cmd(zero, h.b, "refs/heads/y"))
	zipped, gz := compress(good), []string{"Content-Encoding", "gzip"}
	other := compress(body("", cmd(h.b, zero, "refs/heads/main")))
	all := []hostile{
		{name: "gzip/fine", body: zipped, headers: gz, want: "create refs/heads/y", landed: 1},
		{name: "gzip/probe", body: compress("0000"), headers: gz},
		{name: "gzip/second stream", body: zipped + other, headers: gz, want: "compressed body"},
		{name: "gzip/byte after", body: zipped + "x", headers: gz, want: "compressed body"},
		{name: "gzip/zeros after", body: zipped + strings.Repeat("\x00", 512), headers: gz, want: "compressed body"},
		{name: "gzip/plain after", body: zipped + good, headers: gz, want: "compressed body"},
		{name: "gzip/empty stream before", body: compress("") + zipped, headers: gz, want: "compressed body"},
		{name: "gzip/truncated", body: zipped[:len(zipped)-9], headers: gz, want: "compressed body"},
		{name: "gzip/no trailer", body: zipped[:len(zipped)-8], headers: gz, want: "compressed body"},
		{name: "gzip/wrong sum", body: zipped[:len(zipped)-8] + "abcdefgh", headers: gz, want: "compressed body"},
		{name: "gzip/wrong size", body: zipped[:len(zipped)-1] + "x", headers: gz, want: "compressed body"},
		{name: "gzip/corrupted", body: zipped[:30] + "\xff\xff\xff" + zipped[33:], headers: gz, want: "compressed body"},
		{name: "gzip/plain", body: good, headers: gz, want: "compressed body"},
		{name: "gzip/no header", body: zipped, want: "four digits"},
		{name: "gzip/twice compressed", body: compress(zipped), headers: gz, want: "four digits"},
		{name: "gzip/bomb", body: compress(good + strings.Repeat("\x00", 64<<20)), headers: gz, want: "exceeds 1 MiB"},
		{name: "gzip/bomb of zeros", body: compress(strings.Repeat("0", 2<<20)), headers: gz, want: "exceeds 1 MiB"},
		{name: "gzip/bomb up to the limit", body: compress(strings.Repeat("0", 1<<20)), headers: gz, want: "data follows"},
		{name: "gzip/two headers", body: zipped, headers: append(gz, gz...), want: "Content-Encoding"},
		{name: "type/two", body: good, headers: []string{"Content-Type", "application/x-git-receive-pack-request"}, want: "Content-Type"},
		{name: "type/none", body: good, headers: []string{"Content-Type", ""}, want: "Content-Type"},
	}
	for _, e := range []string{"x-gzip", "GZIP", "gzip, gzip", "gzip,identity", "identity", "deflate", "br", "zstd", " ", "gzip;q=1"} {
		all = append(all, hostile{name: fmt.Sprintf("encoding/%q", e), body: zipped, headers: []string{"Content-Encoding", e}, want: "Content-Encoding"})
	}
	for _, e := range []string{"application/x-git-upload-pack-request", "application/x-git-receive-pack-request; charset=utf-8", "Application/x-git-receive-pack-request", "text/plain", "multipart/form-data"} {
		all = append(all, hostile{name: "type/" + e, body: good, headers: []string{"Content-Type", "", "Content-Type", e}, want: "Content-Type"})
	}
	return all
}
