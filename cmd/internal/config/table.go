package config

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// Help writes the table of keys as text.
func Help(w io.Writer) {
	for _, k := range keys {
		name := k.Path
		if k.Secret {
			name = "-"
		}
		fmt.Fprintf(w, "  %-24s %-30s %s\n", name, Variable(k.Path), cmp.Or(k.Default, "-"))
		fmt.Fprintf(w, "      %s\n", k.Doc)
	}
}

// Markdown writes the table of keys for README.md.
func Markdown(w io.Writer) {
	fmt.Fprintln(w, "| key | variable | default | meaning |")
	fmt.Fprintln(w, "| --- | --- | --- | --- |")
	for _, k := range keys {
		name, def := "`"+k.Path+"`", ""
		if k.Secret {
			name = ""
		}
		if k.Default != "" {
			def = "`" + k.Default + "`"
		}
		fmt.Fprintf(w, "| %s | `%s` | %s | %s |\n", name, Variable(k.Path), def, strings.ReplaceAll(k.Doc, "|", "\\|"))
	}
}
