package gitpush

// applyDelta returns the object that delta makes of base, in memory of alloc (gitformat-pack,
// "Deltified representation").
func applyDelta(base, delta []byte, alloc func(int) []byte) ([]byte, error) {
	from, delta, ok := deltaSize(delta)
	size, delta, found := deltaSize(delta)
	if !ok || !found || from != len(base) {
		return nil, errMalformed
	}
	if size > maxObject {
		return nil, errLimit
	}
	object := alloc(size)[:0]
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 { // insert the next op bytes
			n := int(op)
			if n == 0 || n > len(delta) || n > size-len(object) {
				return nil, errMalformed
			}
			object, delta = append(object, delta[:n]...), delta[n:]
			continue
		}
		at, n := 0, 0 // copy n bytes of base
		for bit := range 7 {
			if op>>bit&1 == 0 {
				continue
			}
			if len(delta) == 0 {
				return nil, errMalformed
			}
			if bit < 4 {
				at |= int(delta[0]) << (8 * bit)
			} else {
				n |= int(delta[0]) << (8 * (bit - 4))
			}
			delta = delta[1:]
		}
		if n == 0 {
			n = 0x10000
		}
		if at > len(base) || n > len(base)-at || n > size-len(object) {
			return nil, errMalformed
		}
		object = append(object, base[at:at+n]...)
	}
	if len(object) != size {
		return nil, errMalformed
	}
	return object, nil
}

// deltaSize reads a size of a delta, and returns the rest.
func deltaSize(delta []byte) (size int, rest []byte, ok bool) {
	for i := range min(len(delta), 4) { // 4 bytes state up to 256 MiB
		size |= int(delta[i]&0x7f) << (7 * i)
		if delta[i]&0x80 == 0 {
			return size, delta[i+1:], true
		}
	}
	return 0, nil, false
}
