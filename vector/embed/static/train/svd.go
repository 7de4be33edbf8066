package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

const (
	oversampling = 16 // columns beyond those that are kept
	iterations   = 4
)

// leftVectors returns dims numbers for each row of m: its left singular vectors,
// strongest first, each times the root of its singular value, rows normalised.
// The method is randomised subspace iteration (Halko, Martinsson and Tropp,
// 2011). The same matrix gives the same vectors.
func leftVectors(m *matrix, dims int, progress func(string)) ([][]float32, error) {
	k := dims + oversampling
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable on purpose
	start := mat.NewDense(m.columns, k, nil)
	data := start.RawMatrix().Data
	for i := range data {
		data[i] = random.NormFloat64()
	}
	rows, err := orthonormal(m.times(start))
	for i := range iterations {
		if err != nil {
			return nil, err
		}
		progress(fmt.Sprintf("iteration %d of %d", i+1, iterations))
		var columns *mat.Dense
		if columns, err = orthonormal(m.transposedTimes(rows)); err == nil {
			rows, err = orthonormal(m.times(columns))
		}
	}
	if err != nil {
		return nil, err
	}
	// The matrix is nearly rows * B with B = rows^T * m, and B * B^T is small.
	b := m.transposedTimes(rows)
	var eigen mat.EigenSym
	if !eigen.Factorize(gram(b), true) {
		return nil, fmt.Errorf("no eigenvalues")
	}
	values := eigen.Values(nil) // ascending squares of singular values
	var vectors, left mat.Dense
	eigen.VectorsTo(&vectors)
	left.Mul(rows, &vectors)
	out := make([][]float32, len(m.rows))
	for i := range out {
		v := make([]float64, dims)
		norm := 0.0
		for j := range v {
			c := k - 1 - j
			v[j] = left.At(i, c) * math.Pow(max(values[c], 0), 0.25)
			norm += v[j] * v[j]
		}
		out[i] = make([]float32, dims)
		if norm == 0 {
			continue
		}
		for j, x := range v {
			out[i][j] = float32(x / math.Sqrt(norm))
		}
	}
	return out, nil
}

// times returns m * x.
func (m *matrix) times(x *mat.Dense) *mat.Dense {
	_, k := x.Dims()
	out := mat.NewDense(len(m.rows), k, nil)
	for i, row := range m.rows {
		o := out.RawRowView(i)
		for _, e := range row {
			for j, y := range x.RawRowView(int(e.column)) {
				o[j] += e.value * y
			}
		}
	}
	return out
}

// transposedTimes returns the transpose of m, times x.
func (m *matrix) transposedTimes(x *mat.Dense) *mat.Dense {
	_, k := x.Dims()
	out := mat.NewDense(m.columns, k, nil)
	for i, row := range m.rows {
		r := x.RawRowView(i)
		for _, e := range row {
			o := out.RawRowView(int(e.column))
			for j, y := range r {
				o[j] += e.value * y
			}
		}
	}
	return out
}

// gram returns the transpose of x, times x.
func gram(x *mat.Dense) *mat.SymDense {
	_, k := x.Dims()
	var g mat.Dense
	g.Mul(x.T(), x)
	s := mat.NewSymDense(k, nil)
	for i := range k {
		for j := i; j < k; j++ {
			s.SetSym(i, j, g.At(i, j))
		}
	}
	return s
}

// orthonormal returns an orthonormal basis of the columns of x, by the Cholesky
// factor of their Gram matrix.
func orthonormal(x *mat.Dense) (*mat.Dense, error) {
	g := gram(x)
	for i := range g.SymmetricDim() {
		g.SetSym(i, i, g.At(i, i)+1e-9)
	}
	var factor mat.Cholesky
	if !factor.Factorize(g) {
		return nil, fmt.Errorf("the columns depend on each other")
	}
	var upper, inverse mat.TriDense
	factor.UTo(&upper)
	if err := inverse.InverseTri(&upper); err != nil {
		return nil, err
	}
	var out mat.Dense
	out.Mul(x, &inverse)
	return &out, nil
}
