package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
)

// Read reads files, and the files of directories without their subdirectories. It refuses kustomizations.
func Read(paths ...string) (*Set, error) {
	var objects []Object
	for _, path := range paths {
		found, err := readAt(path)
		if err != nil {
			return nil, err
		}
		if objects = append(objects, found...); len(objects) > maxObjects {
			return nil, fmt.Errorf("%s: more than %d objects", path, maxObjects)
		}
	}
	return New(strings.Join(paths, ", "), objects, false)
}

func readAt(path string) (objects []Object, err error) {
	if dir := kustomized(path); dir != "" {
		return nil, hint.New("`kubectl kustomize "+dir+" > app.yaml` renders it: name that file", "%s is a kustomization: %w", dir, errors.ErrUnsupported)
	}
	files, err := filesAt(path)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		found, err := readFile(file)
		if err != nil {
			return nil, err
		}
		if objects = append(objects, found...); len(objects) > maxObjects {
			break // the caller refuses them
		}
	}
	return objects, nil
}

// Bounds of the input.
const (
	maxFile    = 8 << 20 // bytes of a file (a ConfigMap has 1 MiB at most)
	maxFiles   = 1000
	maxObjects = 5000
)

// extensions of the files of a directory, as kubectl reads them.
var extensions = []string{".yaml", ".yml", ".json"}

var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomized returns the directory of a kustomization, which path or a file in it names, or "" if it is none.
func kustomized(path string) (dir string) {
	if slices.Contains(kustomizations, filepath.Base(path)) {
		return filepath.Dir(path)
	}
	for _, name := range kustomizations {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			return path
		}
	}
	return ""
}

// filesAt is a file, or the regular files of a directory. Links in a directory are not followed.
func filesAt(path string) (files []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && slices.Contains(extensions, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	switch {
	case len(files) == 0:
		return nil, hint.New("subdirectories are not read: list them too", "%s has no file *%s", path, strings.Join(extensions, ", *"))
	case len(files) > maxFiles:
		return nil, fmt.Errorf("%s has more than %d files", path, maxFiles)
	}
	return files, nil
}

func readFile(path string) ([]Object, error) {
	data, err := regular.ReadInput(path, maxFile)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads the objects of a YAML stream, and the items of Lists. name is the file in errors.
func Parse(name string, data []byte) (objects []Object, err error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := documents.Decode(&n)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found, err := objectsOf(name, &n)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
}

func objectsOf(name string, n *yaml.Node) ([]Object, error) {
	timesAsText(n, map[*yaml.Node]bool{})
	place := fmt.Sprintf("%s:%d:%d", name, n.Line, n.Column)
	var fields map[string]any // decoded as Object, inner mappings would have this type too
	if len(n.Content) == 1 && n.Content[0].ShortTag() == "!!null" {
		return nil, nil // comments alone
	}
	if err := n.Decode(&fields); err != nil {
		return nil, hint.New("write apiVersion, kind and metadata", "%s: not a Kubernetes object: %w", place, err)
	}
	o := Object(fields)
	if list, ok := o["items"].([]any); ok && strings.HasSuffix(o.kind(), "List") {
		var all []Object
		for i, item := range list {
			one, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: items[%d] is not a Kubernetes object", place, i)
			}
			if err := complete(place, one); err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	}
	return []Object{o}, complete(place, o)
}

// complete refuses an object without the fields that identify it.
func complete(place string, o Object) error {
	switch {
	case o.kind() == "" || text(o, "apiVersion") == "":
		return hint.New("a Helm chart has application: {chart: …}", "%s: not a Kubernetes object: apiVersion or kind is missing", place)
	case o.name() == "":
		return hint.New("generateName is not supported", "%s: %s has no metadata.name", place, o.kind())
	}
	if _, err := json.Marshal(o); err != nil {
		return hint.New("keys are texts, and numbers are finite", "%s: %s is not JSON: %w", place, o, err)
	}
	return nil
}

// timesAsText keeps dates as they are written: JSON has none.
func timesAsText(n *yaml.Node, seen map[*yaml.Node]bool) {
	if n == nil || seen[n] {
		return
	}
	seen[n] = true
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		timesAsText(c, seen)
	}
	timesAsText(n.Alias, seen)
}
