package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// changes is the number of identifiers of a site: none, another operator, and one more than the constant on its right
// or on its left.
const changes = 4

// helpers are the functions that rewritten packages call in place of operators.
//
//go:embed helpers.go.txt
var helpers string

// operators have the function that computes each, and the operator that a change computes.
var operators = map[token.Token]struct {
	function string
	other    token.Token
}{
	token.ADD: {"mutantAdd", token.SUB}, token.SUB: {"mutantSub", token.ADD}, token.MUL: {"mutantMul", token.QUO}, token.QUO: {"mutantQuo", token.MUL},
	token.LSS: {"mutantLess", token.LEQ}, token.LEQ: {"mutantLessEqual", token.LSS}, token.GTR: {"mutantGreater", token.GEQ}, token.GEQ: {"mutantGreaterEqual", token.GTR},
	token.LAND: {"mutantAnd", token.LOR}, token.LOR: {"mutantOr", token.LAND}, token.EQL: {"", token.NEQ}, token.NEQ: {"", token.EQL},
}

// plain are the operators of assignments.
var plain = map[token.Token]token.Token{
	token.ADD_ASSIGN: token.ADD, token.SUB_ASSIGN: token.SUB, token.MUL_ASSIGN: token.MUL, token.QUO_ASSIGN: token.QUO, token.INC: token.ADD, token.DEC: token.SUB,
}

// rewrite writes the package's files with all its changes to dir. It returns their paths by the file that each replaces.
func (s *subject) rewrite(dir string) (replace map[string]string, err error) {
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range s.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(s.Dir, name), nil, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	lookup, err := exports(s.ImportPath)
	if err != nil {
		return nil, err
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", lookup)}
	if _, err := config.Check(s.ImportPath, set, files, info); err != nil {
		return nil, err
	}
	replace = map[string]string{}
	for i, f := range files {
		path := filepath.Join(s.Dir, s.GoFiles[i])
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		e := &edits{subject: s, set: set, info: info, source: string(source), file: set.File(f.FileStart), text: map[int]*edit{}, name: filepath.Join(filepath.Base(s.Dir), s.GoFiles[i])}
		e.collect(f)
		replace[path] = filepath.Join(dir, strings.ReplaceAll(s.ImportPath, "/", "_")+"_"+s.GoFiles[i])
		if err := os.WriteFile(replace[path], []byte(e.apply()), 0o600); err != nil {
			return nil, err
		}
	}
	added := filepath.Join(s.Dir, "mutant_helpers.go")
	replace[added] = filepath.Join(dir, strings.ReplaceAll(s.ImportPath, "/", "_")+"_helpers.go")
	text := fmt.Sprintf(helpers, s.Name, (len(s.mutants)+2)*changes)
	return replace, os.WriteFile(replace[added], []byte(text), 0o600)
}

// exports returns the export data of the packages that a package needs.
func exports(path string) (lookup func(path string) (io.ReadCloser, error), err error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", path).Output() //nolint:gosec // the go command
	if err != nil {
		return nil, fmt.Errorf("go list -export: %w", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }, nil
}

// edit is the text around a place of a file: end closes calls before it, operator replaces the operator there, and begin
// opens calls.
type edit struct {
	end, operator, begin string
	replaced             int // bytes
}

// edits of one file.
type edits struct {
	subject *subject
	set     *token.FileSet
	info    *types.Info
	source  string
	file    *token.File
	name    string
	text    map[int]*edit // by offset
}

func (e *edits) at(p token.Pos) *edit {
	offset := e.file.Offset(p)
	if e.text[offset] == nil {
		e.text[offset] = &edit{}
	}
	return e.text[offset]
}

func (e *edits) apply() string {
	var b strings.Builder
	for i := 0; i <= len(e.source); {
		x := e.text[i]
		if x != nil {
			b.WriteString(x.end + x.operator + x.begin)
		}
		if x != nil && x.replaced > 0 {
			i += x.replaced
			continue
		}
		if i < len(e.source) {
			b.WriteByte(e.source[i])
		}
		i++
	}
	return b.String()
}

// collect finds the sites of a file, outer ones first.
func (e *edits) collect(f *ast.File) {
	loops := map[ast.Node]bool{}
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.GenDecl:
			return x.Tok != token.CONST
		case *ast.ForStmt:
			loops[x.Post] = true
		case *ast.BinaryExpr:
			e.binary(x)
		case *ast.AssignStmt:
			if op, ok := plain[x.Tok]; ok && len(x.Lhs) == 1 {
				e.assignment(x.Lhs[0], op, x.TokPos, len(x.Tok.String()), x.Rhs[0])
			}
		case *ast.IncDecStmt:
			if !loops[x] { // backwards it would not end
				e.assignment(x.X, plain[x.Tok], x.TokPos, len(x.Tok.String()), nil)
			}
		}
		return true
	})
}

// binary adds the changes of an expression, but not those of texts, constants and comparisons with nil.
func (e *edits) binary(x *ast.BinaryExpr) {
	op, ok := operators[x.Op]
	if !ok || e.info.Types[x].Value != nil || e.isText(x.X) || e.isText(x.Y) {
		return
	}
	equality, logic := op.function == "", x.Op == token.LAND || x.Op == token.LOR
	if !equality && !logic && !e.isNumber(x.X, x.Y) {
		return
	}
	site := e.site(x.OpPos, x.Op, op.other)
	switch {
	case equality:
		e.at(x.Pos()).begin += "(("
		e.at(x.End()).end = fmt.Sprintf(") != mutantOn(%d))", site) + e.at(x.End()).end
		return
	case logic:
		e.at(x.OpPos).operator = ", func() bool { return ("
		e.at(x.End()).end = ")})" + e.at(x.End()).end
	default:
		e.at(x.OpPos).operator = ","
		e.at(x.End()).end = ")" + e.at(x.End()).end
	}
	e.at(x.Pos()).begin += fmt.Sprintf("%s(%d, ", op.function, site)
	e.at(x.OpPos).replaced = len(x.Op.String())
	if x.Op.Precedence() >= token.ADD.Precedence() {
		e.constant(site+2, x.OpPos, x.Y)
		e.constant(site+3, x.OpPos, x.X)
	}
}

// assignment adds the changes of x += y, or of x++ without y. Operands with calls would be computed twice.
func (e *edits) assignment(x ast.Expr, op token.Token, at token.Pos, length int, y ast.Expr) {
	calls := false
	ast.Inspect(x, func(node ast.Node) bool {
		_, call := node.(*ast.CallExpr)
		calls = calls || call
		return true
	})
	if calls || !e.isNumber(x) {
		return
	}
	site := e.site(at, op, operators[op].other)
	edit := e.at(at)
	edit.operator = fmt.Sprintf(" = %s(%d, %s, ", operators[op].function, site, e.source[e.file.Offset(x.Pos()):e.file.Offset(x.End())])
	edit.replaced = length
	if y == nil {
		edit.operator += "1)"
		return
	}
	e.at(y.End()).end = ")" + e.at(y.End()).end
	e.constant(site+2, at, y)
}

// site begins a new site with a change of its operator.
func (e *edits) site(at token.Pos, was, is token.Token) (id int) {
	id = changes
	if n := len(e.subject.mutants); n > 0 {
		id = (e.subject.mutants[n-1].id/changes + 1) * changes
	}
	e.mutant(id+1, at, was.Precedence() >= token.ADD.Precedence(), fmt.Sprintf("%s in place of %s", is, was))
	return id
}

// constant adds the change of an operand if it is a number.
func (e *edits) constant(id int, at token.Pos, x ast.Expr) {
	if number, ok := x.(*ast.BasicLit); ok && (number.Kind == token.INT || number.Kind == token.FLOAT) {
		e.mutant(id, at, true, fmt.Sprintf("1 more than %s", number.Value))
	}
}

func (e *edits) mutant(id int, at token.Pos, arithmetic bool, change string) {
	place := fmt.Sprintf("%s:%d", e.name, e.set.Position(at).Line)
	e.subject.mutants = append(e.subject.mutants, mutant{e.subject, id, place, change, arithmetic})
}

// isText reports whether an expression is nil, a character or a text that is written out.
func (e *edits) isText(x ast.Expr) bool {
	of := e.info.Types[x]
	if b, ok := x.(*ast.BasicLit); ok && b.Kind == token.CHAR || of.IsNil() {
		return true
	}
	return of.Value != nil && of.Value.Kind() == constant.String
}

// isNumber reports whether expressions are numbers of a known type. Untyped shifts get their type from the operator.
func (e *edits) isNumber(all ...ast.Expr) bool {
	for _, x := range all {
		of := e.info.Types[x]
		if shift, is := ast.Unparen(x).(*ast.BinaryExpr); is && shift.Op == token.SHL && of.Value == nil {
			return false
		}
		if of.Type == nil {
			return false
		}
		if basic, ok := of.Type.Underlying().(*types.Basic); !ok || basic.Info()&(types.IsInteger|types.IsFloat) == 0 {
			return false
		}
	}
	return true
}
