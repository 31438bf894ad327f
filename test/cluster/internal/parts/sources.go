package parts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// copyGatewayAPI copies the CRDs of a channel of the Gateway API, in the version that the module is built with.
func (m module) copyGatewayAPI(ctx context.Context, to, channel string, log io.Writer) error {
	sources, err := m.download(ctx, "sigs.k8s.io/gateway-api", log)
	if err != nil {
		return err
	}
	err = edits{}.copy(to, filepath.Join(sources, "config", "crd", channel), "")
	for _, not := range []string{"kustomization.yaml", "gateway.networking.x-k8s.io_*.yaml"} {
		others, _ := filepath.Glob(filepath.Join(to, not))
		for _, file := range others {
			err = errors.Join(err, os.Remove(file))
		}
	}
	if err != nil {
		return fmt.Errorf("copy the CRDs of the Gateway API: %w", err)
	}
	return nil
}

// download is the directory of a module's sources.
func (m module) download(ctx context.Context, module string, log io.Writer) (string, error) {
	get := m.command(ctx, "mod", "download", "-json", module)
	var out bytes.Buffer
	get.Stdout, get.Stderr = &out, log
	err := get.Run()
	var got struct{ Dir, Error string }
	if failed := json.Unmarshal(out.Bytes(), &got); err == nil {
		err = failed
	}
	if got.Error != "" {
		err = errors.New(got.Error)
	}
	if err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	return got.Dir, nil
}

// edits are changes of files in a directory of sources, by path: what a release would have in them, with images of ours.
type edits map[string][]edit

type edit struct {
	text *regexp.Regexp
	with func(version string) string // may have ${1} for the first group
}

// chartVersion is the change of a Chart.yaml.
var chartVersion = []edit{{regexp.MustCompile(`(?m)^(version|appVersion): .*$`), func(version string) string { return "${1}: " + version }}}

// copy copies a directory with the changes. A template of a file, such as values.tmpl.yaml, gets the file's name.
func (e edits) copy(to, from, version string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, relative), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, edit := range e[relative] {
			data = edit.text.ReplaceAll(data, []byte(edit.with(version)))
		}
		return os.WriteFile(filepath.Join(to, strings.Replace(relative, ".tmpl.", ".", 1)), data, 0o600)
	})
}
