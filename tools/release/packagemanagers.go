package main

import (
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"text/template"
)

//go:embed formula.rb.tmpl krew.yaml.tmpl
var templates embed.FS

// semantic is a version that krew accepts.
var semantic = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+`)

// Semantic is the version for krew: a commit without a tag comes before every release.
func (t *train) Semantic() string {
	if semantic.MatchString(t.Version) {
		return t.Version
	}
	return "v0.0.0-" + t.Version
}

// Programs returns the programs in each archive.
func (t *train) Programs() []string { return t.Archives[0].names() }

// Blocks are the operating systems and their blocks in a formula.
func (t *train) Blocks() map[string]string {
	return map[string]string{"darwin": "macos", "linux": "linux"}
}

// Of lists the archives of an operating system.
func (t *train) Of(system string) []archive {
	var of []archive
	for _, a := range t.Archives {
		if a.OS == system {
			of = append(of, a)
		}
	}
	return of
}

// packageManagers fills in the Homebrew formula and the krew manifest.
func (t *train) packageManagers() error {
	all, err := template.ParseFS(templates, "*.tmpl")
	if err != nil {
		return err
	}
	for name, to := range map[string]string{"formula.rb.tmpl": "tare.rb", "krew.yaml.tmpl": "tare-krew.yaml"} {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, name, t); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		if err := t.write(to, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
