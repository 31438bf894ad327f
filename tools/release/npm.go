package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
)

// npmArchitectures are Node's names of architectures.
var npmArchitectures = map[string]string{"amd64": "x64", "arm64": "arm64"}

// npm writes a package for each architecture of Linux: npm links its programs. It has no script.
func (t *train) npm(version string) error {
	for _, a := range t.Of("linux") {
		cpu := npmArchitectures[a.Arch]
		name, bin := "tare-mesh-linux-"+cpu, map[string]string{}
		var content bytes.Buffer
		z := gzip.NewWriter(&content)
		w := tar.NewWriter(z)
		add := func(name string, mode int64, b []byte) error {
			if err := w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: mode, Size: int64(len(b)), ModTime: t.time}); err != nil {
				return err
			}
			_, err := w.Write(b)
			return err
		}
		if err := a.packaged(func(program string, content []byte) error {
			bin[program] = "bin/" + program
			return add(bin[program], 0o755, content)
		}); err != nil {
			return err
		}
		about, err := json.MarshalIndent(map[string]any{
			"name": name, "version": version, "description": "tare and tare-agent: " + summary, "license": license,
			"repository": repository, "os": []string{"linux"}, "cpu": []string{cpu}, "bin": bin,
		}, "", "  ")
		if err != nil {
			return err
		}
		if err := add("package.json", 0o644, append(about, '\n')); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := t.write(fmt.Sprintf("%s-%s.tgz", name, version), content.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
