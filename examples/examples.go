// Package examples embeds the experiments of this directory.
package examples

import (
	"embed"
	"path"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Read returns the file of an experiment by its name, without the ending. The error of an unknown name is fs.ErrNotExist.
func Read(name string) ([]byte, error) { return files.ReadFile(name + ".yaml") }

// Names returns the names of the experiments. Files of prices are left out.
func Names() (names []string) {
	entries, _ := files.ReadDir(".") // an embedded directory is always read
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "prices") })
}
