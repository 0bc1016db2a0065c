package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// versionInfo describes this binary.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisVersion reads the build information of the binary.
func thisVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func newVersion(c *cli) *cobra.Command {
	return c.output(&cobra.Command{
		Use: "version", Short: "Print the version of this binary", Args: cobra.NoArgs,
		RunE: c.do(func(*cobra.Command, []string) error {
			return out.One(c.stdout, c.format, []out.Column[versionInfo]{
				{Name: "version", Cell: func(v versionInfo) string { return v.Version }},
				{Name: "revision", Cell: func(v versionInfo) string { return v.Revision }},
				{Name: "go", Cell: func(v versionInfo) string { return v.Go }},
				{Name: "platform", Cell: func(v versionInfo) string { return v.Platform }},
			}, thisVersion())
		}),
	})
}
