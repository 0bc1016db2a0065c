package keyfile

// Parse is exported for the fuzzer.
var Parse = parse
