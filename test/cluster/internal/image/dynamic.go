package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// libraries are the directories in which the distribution keeps its shared libraries.
var libraries = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib"}

// Dynamic lists what a dynamically linked program needs besides itself: its interpreter and its libraries, at the
// places where this machine has them.
func Dynamic(program string) ([]File, error) {
	files := map[string]bool{}
	queue := []string{program}
	for ; len(queue) > 0; queue = queue[1:] {
		interpreter, names, err := needs(queue[0])
		if err != nil {
			return nil, fmt.Errorf("find what %s needs: %w", program, err)
		}
		if interpreter != "" {
			files[interpreter] = true
		}
		for _, name := range names {
			path, err := library(name)
			if err != nil {
				return nil, fmt.Errorf("find what %s needs: %w", program, err)
			}
			if !files[path] {
				files[path] = true
				queue = append(queue, path)
			}
		}
	}
	list := make([]File, 0, len(files))
	for f := range files {
		list = append(list, File{Path: f, From: f})
	}
	return list, nil
}

// needs are the interpreter and the libraries that a binary names itself.
func needs(path string) (interpreter string, names []string, err error) {
	binary, err := elf.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, binary.Close()) }()
	if section := binary.Section(".interp"); section != nil {
		if data, err := section.Data(); err == nil && len(data) > 0 {
			interpreter = string(data[:len(data)-1])
		}
	}
	names, err = binary.ImportedLibraries()
	return interpreter, names, err
}

func library(name string) (string, error) {
	for _, dir := range libraries {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find library %s: not in %v", name, libraries)
}

// multi is the one program that iptables' many names are links to.
const multi = "/usr/sbin/xtables-nft-multi"

// IPTables lists iptables with its libraries and the extensions that it loads by name. Each of its names is
// there once for every suffix.
func IPTables(suffixes ...string) ([]File, error) {
	files, err := Dynamic(multi)
	if err != nil {
		return nil, err
	}
	files = append(files, File{Path: multi, From: multi})
	for _, dir := range libraries {
		extensions, err := filepath.Glob(filepath.Join(dir, "xtables", "*.so"))
		if err != nil {
			return nil, err
		}
		for _, e := range extensions {
			files = append(files, File{Path: e, From: e})
		}
	}
	for _, name := range []string{"iptables", "ip6tables"} {
		for _, suffix := range suffixes {
			for _, what := range []string{"", "-save", "-restore"} {
				files = append(files, File{Path: "/usr/sbin/" + name + suffix + what, Link: filepath.Base(multi)})
			}
		}
	}
	return files, nil
}
