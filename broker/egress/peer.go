package egress

import "errors"

// peer is who connected to the socket of a box, as the kernel noted it then.
type peer struct {
	namespace uint64 // inode of its network namespace; 0 = nobody can say
	fd        int    // a descriptor of that; -1 = none
}

// kernel is what this machine can say of peers.
type kernel struct {
	own uint64 // the namespace of this process
	err error  // why it can say nothing
}

var errOtherNamespace = errors.New("it is in another network namespace")
