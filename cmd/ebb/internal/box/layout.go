package box

// Where things are in a box.
const (
	WorkDir = "/work"      // the work directory
	Home    = "/home/box"  // empty, and gone with the box
	Dir     = "/run/ebb"   // what the runner puts in
	Self    = Dir + "/ebb" // this binary
	User    = "box"        // its name in /etc/passwd
	Search  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + Dir
)

// Bundle is where programs look for the CAs they trust.
const Bundle = "/etc/ssl/certs/ca-certificates.crt"
