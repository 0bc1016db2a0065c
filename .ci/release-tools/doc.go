// Command releasetools writes the container image of a release as an archive of an OCI image layout (OCI Image Format
// Specification, image-layout.md): for each platform one layer with the binary, the TLS root certificates and an empty data
// directory. It needs no daemon, and equal inputs give equal bytes. The go.mod beside it pins all tools of .ci/release:
// this program, nfpm and cyclonedx-gomod.
//
//	main.go   flags, the index of the platforms, the archive
//	layer.go  the files of the image
package main
