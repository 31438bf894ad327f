// Package kustomize renders kustomizations with kustomize's library. It reads local files only: what kustomize would
// fetch is refused before it is fetched.
package kustomize

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// maxFile bounds each file, bytes.
const maxFile = 8 << 20

// Render returns the objects of the kustomization in a directory as a YAML stream.
func Render(dir string) ([]byte, error) {
	files := &localFiles{FileSystem: filesys.MakeFsOnDisk()}
	// The defaults run no plug-ins, and load files below the directory of their kustomization only.
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if files.refused != nil { // kustomize reports another cause
		return nil, files.refused
	}
	if err != nil {
		return nil, hint.New("`kubectl kustomize "+dir+"` shows it alone", "render the kustomization %s: %w", dir, err)
	}
	text, err := found.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("render the kustomization %s: %w", dir, err)
	}
	return text, nil
}

// Patch applies a patch to the objects of a YAML stream: a strategic merge patch, or a JSON patch. Without kind and name the
// patch names its object. A patch that changes nothing is an error.
func Patch(objects []byte, kind, name, patch string) ([]byte, error) {
	type target struct {
		Kind string `yaml:"kind,omitempty"`
		Name string `yaml:"name,omitempty"`
	}
	type change struct {
		Target *target `yaml:"target,omitempty"`
		Patch  string  `yaml:"patch"`
	}
	c := change{}
	if kind != "" || name != "" {
		c.Target = &target{kind, name}
	}
	var content any
	if err := yaml.Unmarshal([]byte(patch), &content); err != nil {
		return nil, err
	}
	if fields, ok := content.(map[string]any); ok && c.Target != nil { // kustomize requires them, and does not use them
		for field, value := range map[string]any{"kind": cmp.Or(kind, "any"), "metadata": map[string]any{"name": "any"}} {
			if fields[field] == nil {
				fields[field] = value
			}
		}
	}
	text, err := json.Marshal(content) // kustomize knows a JSON patch by its first line
	if err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	c.Patch = string(text)
	before, err := rendered(objects, map[string]any{"resources": []string{"objects.yaml"}})
	if err != nil {
		return nil, err
	}
	after, err := rendered(objects, map[string]any{"resources": []string{"objects.yaml"}, "patches": []change{c}})
	if err == nil && bytes.Equal(before, after) {
		err = hint.New("target selects objects by kind and name; without it the patch needs apiVersion, kind and metadata.name", "it changes no object")
	}
	return after, err
}

// rendered is a kustomization of one file of objects, in memory.
func rendered(objects []byte, kustomization map[string]any) ([]byte, error) {
	text, err := yaml.Marshal(kustomization)
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	if err := errors.Join(files.WriteFile("/objects.yaml", objects), files.WriteFile("/kustomization.yaml", text)); err != nil {
		return nil, err
	}
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/")
	if err != nil {
		return nil, err
	}
	return found.AsYaml()
}

// localFiles are the files of this machine: regular ones of a bounded size, and kustomizations without remote parts.
type localFiles struct {
	filesys.FileSystem
	refused error // the first reason
}

// ReadFile implements [filesys.FileSystem]. Kustomize reads each kustomization before it resolves its parts.
func (l *localFiles) ReadFile(name string) ([]byte, error) {
	data, err := regular.ReadFile(name, maxFile)
	switch {
	case err == nil:
		err = local(name, data)
	case errors.Is(err, fs.ErrNotExist), l.IsDir(name):
		return nil, err // kustomize tries other names, and directories
	}
	if err != nil && l.refused == nil {
		l.refused = err
	}
	return data, err
}

// plugin is the apiVersion of configurations of kustomize's own plug-ins, which may name files too.
const plugin = "builtin"

// local refuses a kustomization, or a configuration of a plug-in, that names something remote.
func local(name string, data []byte) error {
	is := slices.Contains(manifest.Kustomizations, filepath.Base(name))
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := documents.Decode(&n)
		var fields any
		if err == nil {
			err = n.Decode(&fields) // refuses aliases without end
		}
		switch {
		case errors.Is(err, io.EOF), err != nil && !is:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
		field := ""
		if top, ok := fields.(map[string]any); ok && top["apiVersion"] == plugin {
			field = plugin
		} else if !is {
			continue
		}
		if dir := pluginDirectory(filepath.Dir(name), fields); is && dir != "" {
			return hint.New("name the files of the plug-ins", "%s: %.200q is a directory, whose configurations of plug-ins can be patched into others", name, dir)
		}
		if at := remote(&n, field); at != nil {
			return hint.New("write the output of `kubectl kustomize "+filepath.Dir(name)+"` into a file, and name that",
				"%s:%d:%d: %.200q is not a local file, and tare fetches no kustomizations", name, at.Line, at.Column, at.Value)
		}
	}
}

// pluginDirectory is a directory among the configurations of plug-ins, or "". Kustomize would render it, patches included,
// after its files were read.
func pluginDirectory(base string, fields any) string {
	top, _ := fields.(map[string]any)
	for _, field := range []string{"generators", "transformers", "validators"} {
		names, _ := top[field].([]any)
		for _, n := range names {
			name, _ := n.(string)
			if info, err := os.Stat(filepath.Join(base, name)); err == nil && info.IsDir() && name != "" {
				return name
			}
		}
	}
	return ""
}

// patches may be inline.
const patches = "patchesStrategicMerge"

// paths are the fields of a kustomization that name files or directories, at any depth, or contain plug-ins.
var paths = []string{"resources", "bases", "components", "crds", "configurations", "generators", "transformers", "validators",
	"openapi", "path", "files", "envs", "env", patches}

// remote is the first scalar below n that names something remote. field is the field of paths that n is in, or "".
func remote(n *yaml.Node, field string) *yaml.Node {
	switch n.Kind {
	case yaml.AliasNode:
		return remote(n.Alias, field)
	case yaml.ScalarNode:
		inline := field == patches && strings.Contains(n.Value, "\n")
		if field != "" && !inline && isRemote(n.Value) {
			return n
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			below := field
			if name := n.Content[i].Value; below == "" && slices.Contains(paths, name) {
				below = name
			}
			if at := remote(n.Content[i+1], below); at != nil {
				return at
			}
		}
	default:
		for _, c := range n.Content {
			if at := remote(c, field); at != nil {
				return at
			}
		}
	}
	return nil
}

// remotes begins what kustomize fetches by HTTP or git (api/internal/git/repospec.go).
var remotes = regexp.MustCompile(`(?i)^(git::|https?:|ssh:|file:|[a-z][a-z0-9-]*@|github\.com[/:])`)

// isRemote reports whether a path is remote, also one behind a key ("app.conf=path") or in an inline plug-in.
func isRemote(text string) bool {
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		word = strings.Trim(word, `"'`)
		_, value, _ := strings.Cut(word, "=")
		return remotes.MatchString(word) || remotes.MatchString(value)
	})
}
