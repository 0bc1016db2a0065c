package box

// Paths and names in a sandbox.
const (
	WorkDir = "/work"      // the work directory
	Home    = "/home/box"  // empty at the start, and removed with the sandbox
	Dir     = "/run/ebb"   // files and sockets of the runner
	Self    = Dir + "/ebb" // this binary
	User    = "box"        // the user's name in /etc/passwd
	Search  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + Dir
)

// Bundle is the file in which programs look for trusted CAs.
const Bundle = "/etc/ssl/certs/ca-certificates.crt"
