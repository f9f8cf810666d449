// RUN: weft-opt %s --split-input-file --weft-fuse | FileCheck %s

// One kernel of 70 operands would be slow to compile and to run: a tree, whose root takes in what fits into one kernel.
// CHECK-LABEL: @inputs
// CHECK: = weft.fusion
// CHECK-NEXT: weft.concat
// CHECK-NEXT: weft.yield {{.*}} : tensor<32x8xf32>
// CHECK: = weft.fusion
// CHECK-NEXT: weft.concat
// CHECK-NEXT: weft.concat
// CHECK-NEXT: weft.concat {{.*}} : tensor<32x8xf32>, tensor<32x8xf32>, tensor<6x8xf32>
// CHECK-NEXT: weft.yield
// CHECK-NOT: weft.fusion
// CHECK: return
module @inputs {
func.func @main(%x0: tensor<1x8xf32>, %x1: tensor<1x8xf32>, %x2: tensor<1x8xf32>, %x3: tensor<1x8xf32>, %x4: tensor<1x8xf32>, %x5: tensor<1x8xf32>,
    %x6: tensor<1x8xf32>, %x7: tensor<1x8xf32>, %x8: tensor<1x8xf32>, %x9: tensor<1x8xf32>, %x10: tensor<1x8xf32>, %x11: tensor<1x8xf32>,
    %x12: tensor<1x8xf32>, %x13: tensor<1x8xf32>, %x14: tensor<1x8xf32>, %x15: tensor<1x8xf32>, %x16: tensor<1x8xf32>, %x17:
    tensor<1x8xf32>, %x18: tensor<1x8xf32>, %x19: tensor<1x8xf32>, %x20: tensor<1x8xf32>, %x21: tensor<1x8xf32>, %x22: tensor<1x8xf32>,
    %x23: tensor<1x8xf32>, %x24: tensor<1x8xf32>, %x25: tensor<1x8xf32>, %x26: tensor<1x8xf32>, %x27: tensor<1x8xf32>, %x28:
    tensor<1x8xf32>, %x29: tensor<1x8xf32>, %x30: tensor<1x8xf32>, %x31: tensor<1x8xf32>, %x32: tensor<1x8xf32>, %x33: tensor<1x8xf32>,
    %x34: tensor<1x8xf32>, %x35: tensor<1x8xf32>, %x36: tensor<1x8xf32>, %x37: tensor<1x8xf32>, %x38: tensor<1x8xf32>, %x39:
    tensor<1x8xf32>, %x40: tensor<1x8xf32>, %x41: tensor<1x8xf32>, %x42: tensor<1x8xf32>, %x43: tensor<1x8xf32>, %x44: tensor<1x8xf32>,
    %x45: tensor<1x8xf32>, %x46: tensor<1x8xf32>, %x47: tensor<1x8xf32>, %x48: tensor<1x8xf32>, %x49: tensor<1x8xf32>, %x50:
    tensor<1x8xf32>, %x51: tensor<1x8xf32>, %x52: tensor<1x8xf32>, %x53: tensor<1x8xf32>, %x54: tensor<1x8xf32>, %x55: tensor<1x8xf32>,
    %x56: tensor<1x8xf32>, %x57: tensor<1x8xf32>, %x58: tensor<1x8xf32>, %x59: tensor<1x8xf32>, %x60: tensor<1x8xf32>, %x61:
    tensor<1x8xf32>, %x62: tensor<1x8xf32>, %x63: tensor<1x8xf32>, %x64: tensor<1x8xf32>, %x65: tensor<1x8xf32>, %x66: tensor<1x8xf32>,
    %x67: tensor<1x8xf32>, %x68: tensor<1x8xf32>, %x69: tensor<1x8xf32>) -> tensor<70x8xf32> {
  %y = weft.concat %x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9, %x10, %x11, %x12, %x13, %x14, %x15, %x16, %x17, %x18, %x19, %x20, %x21, %x22,
      %x23, %x24, %x25, %x26, %x27, %x28, %x29, %x30, %x31, %x32, %x33, %x34, %x35, %x36, %x37, %x38, %x39, %x40, %x41, %x42, %x43, %x44,
      %x45, %x46, %x47, %x48, %x49, %x50, %x51, %x52, %x53, %x54, %x55, %x56, %x57, %x58, %x59, %x60, %x61, %x62, %x63, %x64, %x65, %x66,
      %x67, %x68, %x69 dim = 0
      : tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>
  return %y : tensor<70x8xf32>
}
}

// -----
// What each input is computed from counts, too: with its 100 slices it would be more ops than a kernel holds.
// CHECK-LABEL: @slices
// CHECK-COUNT-4: weft.concat
// CHECK: return
module @slices {
func.func @main(%x: tensor<100x8xf32>) -> tensor<100x8xf32> {
  %s0 = weft.slice %x [[0, 0] : [1, 8] : [1, 1]] : tensor<100x8xf32>
  %s1 = weft.slice %x [[1, 0] : [2, 8] : [1, 1]] : tensor<100x8xf32>
  %s2 = weft.slice %x [[2, 0] : [3, 8] : [1, 1]] : tensor<100x8xf32>
  %s3 = weft.slice %x [[3, 0] : [4, 8] : [1, 1]] : tensor<100x8xf32>
  %s4 = weft.slice %x [[4, 0] : [5, 8] : [1, 1]] : tensor<100x8xf32>
  %s5 = weft.slice %x [[5, 0] : [6, 8] : [1, 1]] : tensor<100x8xf32>
  %s6 = weft.slice %x [[6, 0] : [7, 8] : [1, 1]] : tensor<100x8xf32>
  %s7 = weft.slice %x [[7, 0] : [8, 8] : [1, 1]] : tensor<100x8xf32>
  %s8 = weft.slice %x [[8, 0] : [9, 8] : [1, 1]] : tensor<100x8xf32>
  %s9 = weft.slice %x [[9, 0] : [10, 8] : [1, 1]] : tensor<100x8xf32>
  %s10 = weft.slice %x [[10, 0] : [11, 8] : [1, 1]] : tensor<100x8xf32>
  %s11 = weft.slice %x [[11, 0] : [12, 8] : [1, 1]] : tensor<100x8xf32>
  %s12 = weft.slice %x [[12, 0] : [13, 8] : [1, 1]] : tensor<100x8xf32>
  %s13 = weft.slice %x [[13, 0] : [14, 8] : [1, 1]] : tensor<100x8xf32>
  %s14 = weft.slice %x [[14, 0] : [15, 8] : [1, 1]] : tensor<100x8xf32>
  %s15 = weft.slice %x [[15, 0] : [16, 8] : [1, 1]] : tensor<100x8xf32>
  %s16 = weft.slice %x [[16, 0] : [17, 8] : [1, 1]] : tensor<100x8xf32>
  %s17 = weft.slice %x [[17, 0] : [18, 8] : [1, 1]] : tensor<100x8xf32>
  %s18 = weft.slice %x [[18, 0] : [19, 8] : [1, 1]] : tensor<100x8xf32>
  %s19 = weft.slice %x [[19, 0] : [20, 8] : [1, 1]] : tensor<100x8xf32>
  %s20 = weft.slice %x [[20, 0] : [21, 8] : [1, 1]] : tensor<100x8xf32>
  %s21 = weft.slice %x [[21, 0] : [22, 8] : [1, 1]] : tensor<100x8xf32>
  %s22 = weft.slice %x [[22, 0] : [23, 8] : [1, 1]] : tensor<100x8xf32>
  %s23 = weft.slice %x [[23, 0] : [24, 8] : [1, 1]] : tensor<100x8xf32>
  %s24 = weft.slice %x [[24, 0] : [25, 8] : [1, 1]] : tensor<100x8xf32>
  %s25 = weft.slice %x [[25, 0] : [26, 8] : [1, 1]] : tensor<100x8xf32>
  %s26 = weft.slice %x [[26, 0] : [27, 8] : [1, 1]] : tensor<100x8xf32>
  %s27 = weft.slice %x [[27, 0] : [28, 8] : [1, 1]] : tensor<100x8xf32>
  %s28 = weft.slice %x [[28, 0] : [29, 8] : [1, 1]] : tensor<100x8xf32>
  %s29 = weft.slice %x [[29, 0] : [30, 8] : [1, 1]] : tensor<100x8xf32>
  %s30 = weft.slice %x [[30, 0] : [31, 8] : [1, 1]] : tensor<100x8xf32>
  %s31 = weft.slice %x [[31, 0] : [32, 8] : [1, 1]] : tensor<100x8xf32>
  %s32 = weft.slice %x [[32, 0] : [33, 8] : [1, 1]] : tensor<100x8xf32>
  %s33 = weft.slice %x [[33, 0] : [34, 8] : [1, 1]] : tensor<100x8xf32>
  %s34 = weft.slice %x [[34, 0] : [35, 8] : [1, 1]] : tensor<100x8xf32>
  %s35 = weft.slice %x [[35, 0] : [36, 8] : [1, 1]] : tensor<100x8xf32>
  %s36 = weft.slice %x [[36, 0] : [37, 8] : [1, 1]] : tensor<100x8xf32>
  %s37 = weft.slice %x [[37, 0] : [38, 8] : [1, 1]] : tensor<100x8xf32>
  %s38 = weft.slice %x [[38, 0] : [39, 8] : [1, 1]] : tensor<100x8xf32>
  %s39 = weft.slice %x [[39, 0] : [40, 8] : [1, 1]] : tensor<100x8xf32>
  %s40 = weft.slice %x [[40, 0] : [41, 8] : [1, 1]] : tensor<100x8xf32>
  %s41 = weft.slice %x [[41, 0] : [42, 8] : [1, 1]] : tensor<100x8xf32>
  %s42 = weft.slice %x [[42, 0] : [43, 8] : [1, 1]] : tensor<100x8xf32>
  %s43 = weft.slice %x [[43, 0] : [44, 8] : [1, 1]] : tensor<100x8xf32>
  %s44 = weft.slice %x [[44, 0] : [45, 8] : [1, 1]] : tensor<100x8xf32>
  %s45 = weft.slice %x [[45, 0] : [46, 8] : [1, 1]] : tensor<100x8xf32>
  %s46 = weft.slice %x [[46, 0] : [47, 8] : [1, 1]] : tensor<100x8xf32>
  %s47 = weft.slice %x [[47, 0] : [48, 8] : [1, 1]] : tensor<100x8xf32>
  %s48 = weft.slice %x [[48, 0] : [49, 8] : [1, 1]] : tensor<100x8xf32>
  %s49 = weft.slice %x [[49, 0] : [50, 8] : [1, 1]] : tensor<100x8xf32>
  %s50 = weft.slice %x [[50, 0] : [51, 8] : [1, 1]] : tensor<100x8xf32>
  %s51 = weft.slice %x [[51, 0] : [52, 8] : [1, 1]] : tensor<100x8xf32>
  %s52 = weft.slice %x [[52, 0] : [53, 8] : [1, 1]] : tensor<100x8xf32>
  %s53 = weft.slice %x [[53, 0] : [54, 8] : [1, 1]] : tensor<100x8xf32>
  %s54 = weft.slice %x [[54, 0] : [55, 8] : [1, 1]] : tensor<100x8xf32>
  %s55 = weft.slice %x [[55, 0] : [56, 8] : [1, 1]] : tensor<100x8xf32>
  %s56 = weft.slice %x [[56, 0] : [57, 8] : [1, 1]] : tensor<100x8xf32>
  %s57 = weft.slice %x [[57, 0] : [58, 8] : [1, 1]] : tensor<100x8xf32>
  %s58 = weft.slice %x [[58, 0] : [59, 8] : [1, 1]] : tensor<100x8xf32>
  %s59 = weft.slice %x [[59, 0] : [60, 8] : [1, 1]] : tensor<100x8xf32>
  %s60 = weft.slice %x [[60, 0] : [61, 8] : [1, 1]] : tensor<100x8xf32>
  %s61 = weft.slice %x [[61, 0] : [62, 8] : [1, 1]] : tensor<100x8xf32>
  %s62 = weft.slice %x [[62, 0] : [63, 8] : [1, 1]] : tensor<100x8xf32>
  %s63 = weft.slice %x [[63, 0] : [64, 8] : [1, 1]] : tensor<100x8xf32>
  %s64 = weft.slice %x [[64, 0] : [65, 8] : [1, 1]] : tensor<100x8xf32>
  %s65 = weft.slice %x [[65, 0] : [66, 8] : [1, 1]] : tensor<100x8xf32>
  %s66 = weft.slice %x [[66, 0] : [67, 8] : [1, 1]] : tensor<100x8xf32>
  %s67 = weft.slice %x [[67, 0] : [68, 8] : [1, 1]] : tensor<100x8xf32>
  %s68 = weft.slice %x [[68, 0] : [69, 8] : [1, 1]] : tensor<100x8xf32>
  %s69 = weft.slice %x [[69, 0] : [70, 8] : [1, 1]] : tensor<100x8xf32>
  %s70 = weft.slice %x [[70, 0] : [71, 8] : [1, 1]] : tensor<100x8xf32>
  %s71 = weft.slice %x [[71, 0] : [72, 8] : [1, 1]] : tensor<100x8xf32>
  %s72 = weft.slice %x [[72, 0] : [73, 8] : [1, 1]] : tensor<100x8xf32>
  %s73 = weft.slice %x [[73, 0] : [74, 8] : [1, 1]] : tensor<100x8xf32>
  %s74 = weft.slice %x [[74, 0] : [75, 8] : [1, 1]] : tensor<100x8xf32>
  %s75 = weft.slice %x [[75, 0] : [76, 8] : [1, 1]] : tensor<100x8xf32>
  %s76 = weft.slice %x [[76, 0] : [77, 8] : [1, 1]] : tensor<100x8xf32>
  %s77 = weft.slice %x [[77, 0] : [78, 8] : [1, 1]] : tensor<100x8xf32>
  %s78 = weft.slice %x [[78, 0] : [79, 8] : [1, 1]] : tensor<100x8xf32>
  %s79 = weft.slice %x [[79, 0] : [80, 8] : [1, 1]] : tensor<100x8xf32>
  %s80 = weft.slice %x [[80, 0] : [81, 8] : [1, 1]] : tensor<100x8xf32>
  %s81 = weft.slice %x [[81, 0] : [82, 8] : [1, 1]] : tensor<100x8xf32>
  %s82 = weft.slice %x [[82, 0] : [83, 8] : [1, 1]] : tensor<100x8xf32>
  %s83 = weft.slice %x [[83, 0] : [84, 8] : [1, 1]] : tensor<100x8xf32>
  %s84 = weft.slice %x [[84, 0] : [85, 8] : [1, 1]] : tensor<100x8xf32>
  %s85 = weft.slice %x [[85, 0] : [86, 8] : [1, 1]] : tensor<100x8xf32>
  %s86 = weft.slice %x [[86, 0] : [87, 8] : [1, 1]] : tensor<100x8xf32>
  %s87 = weft.slice %x [[87, 0] : [88, 8] : [1, 1]] : tensor<100x8xf32>
  %s88 = weft.slice %x [[88, 0] : [89, 8] : [1, 1]] : tensor<100x8xf32>
  %s89 = weft.slice %x [[89, 0] : [90, 8] : [1, 1]] : tensor<100x8xf32>
  %s90 = weft.slice %x [[90, 0] : [91, 8] : [1, 1]] : tensor<100x8xf32>
  %s91 = weft.slice %x [[91, 0] : [92, 8] : [1, 1]] : tensor<100x8xf32>
  %s92 = weft.slice %x [[92, 0] : [93, 8] : [1, 1]] : tensor<100x8xf32>
  %s93 = weft.slice %x [[93, 0] : [94, 8] : [1, 1]] : tensor<100x8xf32>
  %s94 = weft.slice %x [[94, 0] : [95, 8] : [1, 1]] : tensor<100x8xf32>
  %s95 = weft.slice %x [[95, 0] : [96, 8] : [1, 1]] : tensor<100x8xf32>
  %s96 = weft.slice %x [[96, 0] : [97, 8] : [1, 1]] : tensor<100x8xf32>
  %s97 = weft.slice %x [[97, 0] : [98, 8] : [1, 1]] : tensor<100x8xf32>
  %s98 = weft.slice %x [[98, 0] : [99, 8] : [1, 1]] : tensor<100x8xf32>
  %s99 = weft.slice %x [[99, 0] : [100, 8] : [1, 1]] : tensor<100x8xf32>
  %y = weft.concat %s0, %s1, %s2, %s3, %s4, %s5, %s6, %s7, %s8, %s9, %s10, %s11, %s12, %s13, %s14, %s15, %s16, %s17, %s18, %s19, %s20, %s21, %s22,
      %s23, %s24, %s25, %s26, %s27, %s28, %s29, %s30, %s31, %s32, %s33, %s34, %s35, %s36, %s37, %s38, %s39, %s40, %s41, %s42, %s43, %s44,
      %s45, %s46, %s47, %s48, %s49, %s50, %s51, %s52, %s53, %s54, %s55, %s56, %s57, %s58, %s59, %s60, %s61, %s62, %s63, %s64, %s65, %s66,
      %s67, %s68, %s69, %s70, %s71, %s72, %s73, %s74, %s75, %s76, %s77, %s78, %s79, %s80, %s81, %s82, %s83, %s84, %s85, %s86, %s87, %s88,
      %s89, %s90, %s91, %s92, %s93, %s94, %s95, %s96, %s97, %s98, %s99 dim = 0
      : tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>,
      tensor<1x8xf32>, tensor<1x8xf32>
  return %y : tensor<100x8xf32>
}
}
