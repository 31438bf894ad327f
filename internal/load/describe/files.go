package describe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
)

const (
	maxProto    = 16 << 20  // bytes of a .proto file
	maxProtoset = 256 << 20 // bytes
	maxMistakes = 10        // reported
)

// compile reads .proto files. A file is found by its path, and its imports in importPaths, then
// beside the files.
func compile(ctx context.Context, protos, importPaths []string) (*files, error) {
	dirs := slices.Clone(importPaths)
	var names []string
	for _, path := range protos {
		name, dir := within(path, importPaths)
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		names = append(names, name)
	}
	var mistakes []error
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(resolver(dirs)),
		Reporter: reporter.NewReporter(func(err reporter.ErrorWithPos) error {
			if mistakes = append(mistakes, err); len(mistakes) == maxMistakes {
				return err
			}
			return nil
		}, nil),
	}
	compiled, err := c.Compile(ctx, names...)
	if len(mistakes) > 0 {
		err = errors.Join(mistakes...)
	}
	if err != nil {
		return nil, hint.New("--import-path DIR adds a directory of imports", "%w", err)
	}
	all := new(protoregistry.Files)
	for _, f := range compiled {
		if err := register(all, f); err != nil {
			return nil, err
		}
	}
	return &files{all: all, resolver: dynamicpb.NewTypes(all)}, nil
}

// within splits a path into a directory of imports and the name of the file in it.
func within(path string, dirs []string) (name, dir string) {
	for _, dir := range dirs {
		rel, err := filepath.Rel(dir, path)
		if err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), dir
		}
	}
	for _, dir := range dirs { // as protoc: a name in one of them
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil && filepath.IsLocal(path) {
			return filepath.ToSlash(path), dir
		}
	}
	return filepath.Base(path), filepath.Dir(path)
}

// resolver reads regular files of limited size from directories.
func resolver(dirs []string) protocompile.Resolver {
	return protocompile.ResolverFunc(func(name string) (protocompile.SearchResult, error) {
		if !filepath.IsLocal(name) {
			return protocompile.SearchResult{}, protoregistry.NotFound
		}
		for _, dir := range dirs {
			f, err := regular.Open(filepath.Join(dir, name), maxProto)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			return protocompile.SearchResult{Source: f}, err
		}
		return protocompile.SearchResult{}, protoregistry.NotFound
	})
}

// register adds a file and its imports.
func register(all *protoregistry.Files, f linker.File) error {
	if _, err := all.FindFileByPath(f.Path()); err == nil {
		return nil
	}
	imports := f.Imports()
	for i := range imports.Len() {
		if dep := f.FindImportByPath(imports.Get(i).Path()); dep != nil {
			if err := register(all, dep); err != nil {
				return err
			}
		}
	}
	return all.RegisterFile(protoreflect.FileDescriptor(f))
}
