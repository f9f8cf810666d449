// Attributes beside the records' own: each is of its kind.
// RUN: weft-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK: weft.sizes = {n = [2, 64]}
module attributes {weft.sizes = {n = [2, 64]}} {
  func.func @f(%x: tensor<2xf32> {weft.name = "x", weft.donatable, weft.kept, weft.stable, weft.other = 1 : i64})
      -> (tensor<2xf32> {weft.name = "y", weft.writes = 0 : i64}) {
    return %x : tensor<2xf32>
  }
}

// -----
// CHECK: weft.sizes = {n = array<i64: 2, 64>}
module attributes {weft.sizes = {n = array<i64: 2, 64>}} {}

// -----
// expected-error@+1 {{argument 1 of @f has a weft.name of the wrong kind; it must be a string}}
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32> {weft.name = 5 : i64}) {
  return
}

// -----
// expected-error@+1 {{argument 0 of @f has a weft.parameter of the wrong kind; it must be a string}}
func.func @f(%x: tensor<2xf32> {weft.parameter = ["a"]}) {
  return
}

// -----
// expected-error@+1 {{argument 0 of @f has a weft.state of the wrong kind; it must be a string}}
func.func @f(%x: tensor<2xf32> {weft.state}) {
  return
}

// -----
// expected-error@+1 {{argument 0 of @f has a weft.initial of the wrong kind; it must be the elements of a tensor}}
func.func @f(%x: tensor<2xf32> {weft.initial = "a"}) {
  return
}

// -----
// expected-error@+1 {{argument 0 of @f has a weft.donatable of the wrong kind; it must be the name alone}}
func.func @f(%x: tensor<2xf32> {weft.donatable = false}) {
  return
}

// -----
// expected-error@+1 {{result 0 of @f has a weft.name of the wrong kind; it must be a string}}
func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32> {weft.name}) {
  return %x : tensor<2xf32>
}

// -----
// expected-error@+1 {{result 0 of @f writes argument 9 (weft.writes); there are 1}}
func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32> {weft.writes = 9 : i64}) {
  return %x : tensor<2xf32>
}

// -----

// expected-error@+1 {{result 0 of @f has a weft.writes of the wrong kind; it must be an integer}}
func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32> {weft.writes = "x"}) {
  return %x : tensor<2xf32>
}

// -----
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{'weft.exp' op has a weft.parameter of the wrong kind; it must be a string}}
  %0 = weft.exp %x {weft.parameter = dense<1.0> : tensor<2xf32>} : tensor<2xf32>
  return
}

// -----
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{'weft.fusion' op has a weft.schedule of the wrong kind; it must be a dictionary of integers and strings}}
  %0 = weft.fusion(%a = %x : tensor<2xf32>) -> (tensor<2xf32>) attributes {weft.schedule = 5 : i64} {
    %1 = weft.exp %a : tensor<2xf32>
    weft.yield %1 : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}

// -----
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{'weft.fusion' op has a weft.schedule of the wrong kind}}
  %0 = weft.fusion(%a = %x : tensor<2xf32>) -> (tensor<2xf32>) attributes {weft.schedule = {rows = [4]}} {
    %1 = weft.exp %a : tensor<2xf32>
    weft.yield %1 : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}

// -----
// expected-error@+1 {{'builtin.module' op has a weft.sizes of the wrong kind; it must be a dictionary of ranges}}
module attributes {weft.sizes = {n = [2, 64, 3]}} {}

// -----
// expected-error@+1 {{'builtin.module' op has a weft.sizes of the wrong kind; it must be a dictionary of ranges [MIN, MAX]}}
module attributes {weft.sizes = {n = [9, 2]}} {}
