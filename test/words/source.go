package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// readTree reads the prose of every file under root. Hidden files and directories
// other than .ci and .github, testdata, and the paths in skip are left out.
func readTree(root string, skip []string) ([]*block, error) {
	var all []*block
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if slices.Contains(skip, rel) || (rel != "." && strings.HasPrefix(d.Name(), ".") && rel != ".ci" && rel != ".github") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			if d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		read := reader(rel)
		if read == nil {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		blocks, err := read(rel, src)
		if err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
		for _, b := range blocks {
			if !b.empty() {
				all = append(all, b)
			}
		}
		return nil
	})
	return all, err
}

// directive matches comments for tools, which are not prose.
var directive = regexp.MustCompile(`^//(?:[a-z]+:|nolint|line |export )|^// (?:Output:|Code generated)`)

func readGo(file string, src []byte) ([]*block, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	g := goFile{file: file, set: set, src: src}
	for _, group := range f.Comments {
		g.comment(group)
	}
	ast.Inspect(f, g.node)
	name := &block{file: file, kind: identifiers}
	name.add(1, 1, []byte(splitWords(strings.TrimSuffix(path.Base(file), ".go"))))
	return append(g.blocks, name), nil
}

// goFile collects the blocks of one Go file.
type goFile struct {
	file   string
	set    *token.FileSet
	src    []byte
	blocks []*block
}

func (g *goFile) comment(group *ast.CommentGroup) {
	b := &block{file: g.file, kind: comments}
	for _, c := range group.List {
		if directive.MatchString(c.Text) {
			continue
		}
		at := g.set.Position(c.Pos())
		for i, line := range strings.Split(c.Text, "\n") {
			col := 1
			if i == 0 {
				col, line = at.Column+2, line[2:]
			}
			line = strings.TrimSuffix(line, "*/")
			if code := strings.TrimPrefix(line, " "); strings.HasPrefix(code, "\t") || strings.HasPrefix(code, "    ") {
				line = "" // preformatted
			}
			b.add(at.Line+i, col, []byte(line))
		}
	}
	g.blocks = append(g.blocks, b)
}

func (g *goFile) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.BinaryExpr:
		if n.Op == token.ADD {
			if parts := literals(n); len(parts) > 0 {
				g.message(parts)
				return false
			}
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			g.message([]*ast.BasicLit{n})
		}
	case *ast.Field:
		for _, name := range n.Names {
			g.name(name)
		}
		if n.Type != nil {
			ast.Inspect(n.Type, g.node)
		}
		return false // the tag is no message
	case *ast.FuncDecl:
		g.name(n.Name)
	case *ast.TypeSpec:
		g.name(n.Name)
	case *ast.ValueSpec:
		for _, name := range n.Names {
			g.name(name)
		}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			for _, e := range n.Lhs {
				if name, ok := e.(*ast.Ident); ok {
					g.name(name)
				}
			}
		}
	}
	return true
}

// literals returns the string literals of a sum in which there are at least
// two and nothing else. A sum with other operands has each literal visited alone.
func literals(n ast.Expr) []*ast.BasicLit {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			return []*ast.BasicLit{n}
		}
	case *ast.BinaryExpr:
		x, y := literals(n.X), literals(n.Y)
		if n.Op == token.ADD && len(x) > 0 && len(y) > 0 {
			return append(x, y...)
		}
	}
	return nil
}

// escape matches an escaped character of an interpreted string.
var escape = regexp.MustCompile(`\\[abfnrtv\\"']`)

// message adds string literals as one block. One without a space is a key, not a message.
func (g *goFile) message(parts []*ast.BasicLit) {
	b := &block{file: g.file, kind: messages}
	for _, lit := range parts {
		at := g.set.Position(lit.Pos())
		text := []byte(lit.Value[1 : len(lit.Value)-1])
		if lit.Value[0] == '"' {
			for _, e := range escape.FindAllIndex(text, -1) {
				if newline := text[e[0]+1] == 'n'; newline {
					text[e[0]], text[e[0]+1] = '\n', '\n'
				} else {
					blank(text, e[0], e[1])
				}
			}
			b.add(at.Line, at.Column+1, text)
			continue
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			col := 1
			if i == 0 {
				col = at.Column + 1
			}
			if preformatted(g.file, line) {
				b.add(at.Line+i, col, nil)
			}
			b.add(at.Line+i, col, line)
		}
	}
	if bytes.ContainsAny(bytes.TrimSpace(b.text), " \n") {
		g.blocks = append(g.blocks, b)
	}
}

// preformatted reports whether a line of a raw string is not part of a wrapped
// paragraph: it is indented, or it is data of a test.
func preformatted(file string, line []byte) bool {
	return strings.HasSuffix(file, "_test.go") || bytes.HasPrefix(line, []byte(" ")) || bytes.HasPrefix(line, []byte("\t"))
}

func (g *goFile) name(n *ast.Ident) {
	at := g.set.Position(n.Pos())
	b := &block{file: g.file, kind: identifiers}
	b.add(at.Line, at.Column, []byte(splitWords(n.Name)))
	g.blocks = append(g.blocks, b)
}

// splitWords writes a Go name as words: freePort is "free Port".
func splitWords(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range strings.ReplaceAll(name, "_", " ") {
		if unicode.IsUpper(r) && lower {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(r)
	}
	return b.String()
}

var hashComment = regexp.MustCompile(`(?:^|[ \t])#+([^!#].*)$`)

// readHashComments reads comments that begin with #. Those on successive lines
// that hold nothing else are one block.
func readHashComments(file string, src []byte) ([]*block, error) {
	var all []*block
	last := -1
	for i, line := range bytes.Split(src, []byte("\n")) {
		m := hashComment.FindSubmatchIndex(line)
		if m == nil {
			continue
		}
		whole := len(bytes.TrimSpace(line[:m[0]])) == 0
		if !whole || last != i-1 || len(all) == 0 {
			all = append(all, &block{file: file, kind: comments})
		}
		all[len(all)-1].add(i+1, m[2]+1, line[m[2]:m[3]])
		if whole {
			last = i
		}
	}
	return all, nil
}
